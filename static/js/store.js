// This browser's local storage; without storage, nothing is remembered.

/** The stored text under quantix.<name>, or null. */
export function recall(name) {
  try { return localStorage.getItem(`quantix.${name}`); } catch { return null; }
}

/** Stores text under quantix.<name>; null forgets it. */
export function remember(name, text) {
  try {
    if (text === null) localStorage.removeItem(`quantix.${name}`);
    else localStorage.setItem(`quantix.${name}`, text);
  } catch { /* storage is full or off: the page works without */ }
}
