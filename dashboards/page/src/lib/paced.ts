/** every calls something again and again while somebody looks at the page, until the function that it returns is called. */
export function every(ms: number, what: () => void): () => void {
  const timer = setInterval(() => document.hidden || what(), ms);
  return () => clearInterval(timer);
}

/** kept is what was there if what is new says the same, so that nothing is drawn anew. */
export const kept = <T>(before: T, now: T): T => (JSON.stringify(before) === JSON.stringify(now) ? before : now);

/**
 * paced calls something at once, but never sooner than so many milliseconds after the last
 * time, and not before what it called then has ended: what is asked for again with every change
 * of a large grid would never end, and questions to a slow server would pile up all night. The
 * function that it returns takes the call back.
 */
export function paced(ms: number): (what: () => unknown) => () => void {
  let last = -Infinity;
  let before: Promise<unknown> = Promise.resolve();
  return (what) => {
    let wanted = true;
    const call = async () => {
      await before;
      if (!wanted) return;
      last = performance.now();
      before = Promise.resolve(what()).catch(() => undefined);
    };
    const timer = setTimeout(call, Math.max(0, last + ms - performance.now()));
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  };
}
