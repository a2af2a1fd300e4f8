/** every calls something again and again while somebody looks at the page, until the function that it returns is called. */
export function every(ms: number, what: () => void): () => void {
  const timer = setInterval(() => document.hidden || what(), ms);
  return () => clearInterval(timer);
}

/** kept is what was there if what is new says the same, so that nothing is drawn anew. */
export const kept = <T>(before: T, now: T): T => (JSON.stringify(before) === JSON.stringify(now) ? before : now);

/**
 * paced calls something at once, but never sooner than so many milliseconds after the last
 * time, nor before that has ended: questions to a slow server pile up all night else, and an old
 * answer comes after a new one. What takes long is called for a fifth of the time at most. The
 * function that it returns takes the call back.
 */
export function paced(ms: number): (what: () => unknown) => () => void {
  let next = -Infinity;
  let before: Promise<unknown> = Promise.resolve();
  const call = async (what: () => unknown) => {
    const began = performance.now();
    next = began + ms;
    await Promise.resolve(what()).catch(() => undefined);
    next = Math.max(next, performance.now() + 4 * (performance.now() - began));
  };
  return (what) => {
    let wanted = true;
    let timer: ReturnType<typeof setTimeout>;
    void before.then(() => {
      if (wanted) timer = setTimeout(() => (before = call(what)), Math.max(0, next - performance.now()));
    });
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  };
}
