import { api, ask, message } from './api';
import { parse } from './visible';

const retryAfter = 5000; // ms until a stream that was refused is tried again
const lookAgain = 20000; // ms until a finished run is looked at again

/**
 * Live is the newest state of a stream of events. It is closed while the page is
 * hidden, because browsers keep few connections to one server.
 */
export class Live<T> {
  value = $state.raw<T>();
  /** connection is the displayed state of the stream: "connecting …" only while it is opened. */
  connection = $state('');
  /** trouble is the error that stopped the stream; '' if there is none. */
  trouble = $state('');
  private last = '';
  private ended = false; // a finished run is looked at again without a word
  private source: EventSource | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private path: string) {}

  /** start reads the stream until the returned function is called. */
  start(): () => void {
    const look = () => (document.hidden ? this.close() : this.open());
    document.addEventListener('visibilitychange', look);
    this.open();
    return () => {
      document.removeEventListener('visibilitychange', look);
      this.close();
    };
  }

  /** open connects again: a finished run may continue. */
  open() {
    this.close();
    const source = new EventSource(`${api}${this.path}/events`);
    this.source = source;
    if (!this.ended) this.connection = 'connecting …';
    source.addEventListener('open', () => this.ended || (this.connection = 'live'));
    source.addEventListener('status', (e) => this.take(e.data));
    source.addEventListener('trouble', (e) => (this.trouble = parse((e as MessageEvent).data).error));
    source.addEventListener('end', () => {
      this.ended = true;
      this.connection = 'finished';
      this.again(lookAgain);
    });
    source.addEventListener('error', () => this.lost(source));
  }

  private take(data: string) {
    this.trouble = '';
    if (data === this.last) return;
    this.ended = false;
    this.connection = 'live';
    this.last = data;
    this.value = parse(data) as T;
  }

  /** lost finds the reason: the server is unreachable, refuses, or requires a login. */
  private async lost(source: EventSource) {
    if (source.readyState === EventSource.CLOSED) this.again(retryAfter);
    this.ended = false;
    this.connection = 'not connected';
    try {
      await ask(this.path || '/runs');
      if (source === this.source) this.trouble = '';
    } catch (e) {
      this.trouble = message(e);
    }
  }

  private again(ms: number) {
    this.close();
    if (!document.hidden) this.timer = setTimeout(() => this.open(), ms);
  }

  private close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = undefined;
  }
}
