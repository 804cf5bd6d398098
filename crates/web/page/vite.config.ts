import { defineConfig } from "vite";
import { studies } from "./vite.studies.ts";

// Relative addresses: the page works in any folder of a server. Nothing is inlined, so that the content security policy needs no exceptions.
export default defineConfig({
  base: "./",
  plugins: [studies()],
  build: { outDir: "dist", emptyOutDir: false, assetsInlineLimit: 0, modulePreload: false, target: "es2022" },
  worker: { format: "es" },
});
