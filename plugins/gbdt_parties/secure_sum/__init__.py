"""Sums of integer vectors over several parties that reveal nothing but the sum.

Every party adds masks to its vector that cancel in the sum over all parties, and signs the result.  A
coordinator, which may be one of the parties, forwards the signed vectors; every party adds them up itself.

How a session runs
------------------
1. Every party draws fresh keys, a nonce and a seed, and introduces itself with its certificates, its public
   keys (X25519 and Ed25519) and a commitment to the seed (`keys`, `roster`).
2. The coordinator collects the introductions into a roster.  Every party checks that its own introduction is
   in there as it sent it, that all others are on its allow-list (`trust`), that all public keys are
   usable and none gives the secrets of another one (`keys`), and signs the roster with the key of its
   certificate.
3. Every party checks all signatures, and only then reveals its seed.  The seeds, checked against the
   commitments, give a public random stream that no party could choose.
4. An attempt names a round, a number, the members whose vectors are added, and the digest of the question
   that they answer.  Members derive one stream for each other member, mask, sign and send (`masks`,
   `contributions`).  A party answers an attempt once; what it answered it can send again.
5. At the end a party signs the roster, the transcript of attempts and sums, and digests of its result, once
   in a run.  It keeps the result if enough others have signed the same (`roster.SignedEnd`).

A run (`gbdt_parties.run`) is a session whose sums follow from each other.

What is hidden, and why
-----------------------
Let the members of an attempt be 1 … n, x_i their vectors modulo M = 2^64 or 2^128, and m_ij = -m_ji the
masks.  Party i sends y_i = x_i + Σ_j m_ij.

*Masks belong to a pair.*  m_ij is a ChaCha20 stream whose key HKDF-SHA256 derives from the X25519 secret of i
and j.  The roster's digest, which covers session, statement and all keys, is its salt; the places and
public keys of both, round, number, members and question are its information, all of fixed length or with
their length, so that no two pairs and no two attempts have the same (`masks.pair_of`, `Attempt.to_bytes`).
The secret alone would not do.  X25519 gives the same secret for a key with its top bit flipped, and for up to
eight canonical keys, one of them 1 / u: a party that announced such a twin of another one's key would make
every third party derive one stream for both.  If it stood between them in the roster, it would add the stream
for the one and subtract it for the other, and no mask would be left.

*Masks look uniform.*  Take any set C of members that pool what they know with the coordinator's, and let H be
the other members, h of them, who follow the protocol and have drawn their keys.  Treat HKDF as a random
oracle.  The key of m_ij with i and j in H is then its value at the secret of i and j and at information that
names the two.  No other mask has this information, whatever keys C has announced, also ones made of keys in
H: so masks between H and C, which C may or may not know, are values at other places, and say nothing of it.
To ask the oracle itself C would have to know the secret of two drawn keys, which is the (gap) Diffie-Hellman
problem.  Hence the masks within H look independent and uniform, given all other masks.  Each stream masks one
vector only, as long as no party answers an attempt twice with different vectors; its log
(`gbdt_parties.run.log`) sees to that, across restarts too.

*Nothing but the sum.* Give C all masks between H and C, and let it take them off. The rest is y_i' = x_i +
Σ_(j in H) m_ij for i in H. If the masks within H are independent and uniform, then (y_i') is uniform on the
set of all vectors with the sum Σ_H x_i: order H, and let m_(i, last) for i < last run through all values;
each gives y_i' any value independently, and fixes only y'_last by the sum. So the distribution of what C sees
depends on the x_i of H through their sum alone, also if C is larger than H. For h = 1 the sum is the party's
own vector: of two parties, each learns the other's.

*Keys are checked, too.*  That does not follow from the above and is not needed for it: a key in a spelling
that is not canonical, of small order, or with the secrets of another key in the roster is refused, because no
party that follows the protocol has one.  Signatures are checked under Ed25519 keys that are canonical and not
of small order, under which one signature would be good for many vectors.

*No man in the middle.*  X25519 keys are covered by the signatures of the certificates' keys over the whole
roster: names, certificates, nonces, keys, commitments, session and statement. An attacker who replaces a key
must forge a signature of a certificate that the allow-list names. Fresh nonces of all parties make every
roster a new one, so that nothing of one session is accepted in another.

*Sums cannot be made up.*  A contribution's signature covers the roster, the attempt and the vector.  A
coordinator that sends other sums back, leaves a vector out, repeats one, or takes it from another attempt is
noticed by every party.  It can leave the whole answer out: that is a party lost, not a lie.

*Ends are the same.*  Two attempts at the last sum, or two vectors of a party for it, give two results, which
no later question tells apart.  Sums over all parties end on signatures of all, so that two parties that
follow the protocol have the same result, or none.  Other sums end on those of more than half: any two ends
have a signer in common, which has signed both, as both files show.

*Not* hidden are the sum, who takes part, when, and the length of vectors. The following cannot be noticed: a
party that adds wrong numbers within the range that is checked. A coordinator that asks for the same round
with another set of parties learns the sum over that set; every answering party must be content with that.
"""
