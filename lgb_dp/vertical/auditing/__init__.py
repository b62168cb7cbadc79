"""An auditor's repetition of one party's side of a run with columns apart."""
