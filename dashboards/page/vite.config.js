// The page is built into ../web/app, which is committed: who builds coalmine needs no Node.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// sources are the files that decide the build, as TestThePageIsBuiltOfItsSources lists them.
function sources() {
  const below = readdirSync('src', { recursive: true, withFileTypes: true });
  const files = below.filter((f) => f.isFile()).map((f) => `${f.parentPath}/${f.name}`);
  return [...files, 'index.html', 'package.json', 'package-lock.json', 'tsconfig.json', 'vite.config.js'].sort();
}

// stamp notes of which sources the build was made, so that a test without Node finds out
// that they have changed since.
function stamp() {
  const digest = createHash('sha256');
  for (const file of sources()) digest.update(`${file}\n`).update(readFileSync(file));
  return {
    name: 'stamp',
    generateBundle() {
      this.emitFile({ type: 'asset', fileName: 'sources.txt', source: digest.digest('hex') + '\n' });
    },
  };
}

export default defineConfig({
  base: '/app/',
  // The server may be shown below a path: it puts that into index.html, and scripts find theirs.
  experimental: { renderBuiltUrl: (_, { hostType }) => (hostType === 'js' ? { relative: true } : undefined) },
  // Markup is made element by element: nothing is ever inserted as HTML.
  plugins: [svelte({ compilerOptions: { fragments: 'tree' } }), stamp()],
  build: {
    outDir: '../web/app',
    emptyOutDir: true,
    assetsDir: '',
    target: 'es2022',
    license: { fileName: 'licenses.json' }, // of the packages in the build, for coalmine version --licenses
    modulePreload: { polyfill: false },
  },
});
