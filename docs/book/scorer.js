// How the search ranks its results. Without this file, a rule or an error message that matches a query
// would often be below lessons that match it equally well.
var Scorer = {
  score: ([page, , , , score]) => score + (/\/(rules|error_messages)\//.test(page) ? 8 : 0),

  // Sphinx's own numbers
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
