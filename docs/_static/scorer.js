/* Guides come before the reference, and both before internal modules, wherever the words are found. */
var Scorer = {
  score: ([docname, title, anchor, description, score]) => {
    if (docname.startsWith("generated/internal")) return score - 60;
    if (docname.startsWith("generated/")) return score - 20;
    if (docname.startsWith("experiments/") || docname === "wire-protocol") return score - 10;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
