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
