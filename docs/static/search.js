/* A pasted error message has words that no page has, such as a path. Where a search of all words finds nothing,
   words are left out that no page has, and then, one at a time, the one whose absence lets most pages be found. */
"use strict";

// A page that is opened as a file may not read others, so there are no excerpts of them.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// On the page of all errors, who comes from a search is led to the message that has most of its words.
const sought = (localStorage.getItem("sphinx_highlight_terms") || "").toLowerCase().split(" ").filter(Boolean);

document.addEventListener("DOMContentLoaded", () => {
  const messages = [...document.querySelectorAll("section#errors li")];
  if (sought.length > 1 && messages.length) {
    const words = messages.map((message) => message.textContent.toLowerCase());
    const counts = words.map((text) => sought.filter((word) => text.includes(word)).length);
    const best = Math.max(...counts);
    const shortest = counts.map((count, i) => (count === best ? words[i].length : Infinity));
    const message = messages[shortest.indexOf(Math.min(...shortest))];
    message.classList.add("sought");
    message.scrollIntoView({ block: "center", behavior: "instant" });
  }
});

document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const searchAll = Search.performTermsSearch;
  const search = (terms, excluded) => searchAll.call(Search, new Set(terms), excluded);

  Search.performTermsSearch = (searchTerms, excludedTerms) => {
    const found = search(searchTerms, excludedTerms);
    if (found.length || searchTerms.size < 2) return found;
    let terms = [...searchTerms].filter((term) => search([term], excludedTerms).length);
    while (terms.length > 1) {
      const all = search(terms, excludedTerms);
      if (all.length) return all;
      const fewer = terms.map((left) => terms.filter((term) => term !== left));
      const counts = fewer.map((some) => search(some, excludedTerms).length);
      terms = fewer[counts.indexOf(Math.max(...counts))];
    }
    return terms.length ? search(terms, excludedTerms) : found;
  };
});
