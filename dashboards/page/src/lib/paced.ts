/** every calls something again and again while somebody looks at the page, until the function that it returns is called. */
export function every(ms: number, what: () => void): () => void {
  const timer = setInterval(() => document.hidden || what(), ms);
  return () => clearInterval(timer);
}

/** kept is what was there if what is new says the same, so that nothing is drawn anew. */
export const kept = <T>(before: T, now: T): T => (JSON.stringify(before) === JSON.stringify(now) ? before : now);

/**
 * paced calls something at once, but never sooner than so many milliseconds after the last
 * time: what is asked for again with every change of a large grid would never end. The
 * function that it returns takes the call back.
 */
export function paced(ms: number): (what: () => void) => () => void {
  let last = -Infinity;
  return (what) => {
    const call = () => {
      last = performance.now();
      what();
    };
    const timer = setTimeout(call, Math.max(0, last + ms - performance.now()));
    return () => clearTimeout(timer);
  };
}
