import { message } from './api';

const retryAfter = 5000; // ms until what has failed is tried again

/** Attempts are what a view asks for beside its stream, which may fail while the server is away. */
export class Attempts {
  /** trouble is why the last one failed, '' if it did not. */
  trouble = $state('');
  /** failed counts those that failed, some seconds later: what depends on it asks again. */
  failed = $state(0);

  async make(what: () => Promise<void>) {
    try {
      await what();
      this.trouble = '';
    } catch (e) {
      this.trouble = message(e);
      setTimeout(() => this.failed++, retryAfter);
    }
  }
}
