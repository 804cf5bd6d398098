// Studies for the page, from the files in the folder `studies` when the page is built: nothing about them is written a second time.
import { Marked, type Tokens } from "marked";
import type { Plugin } from "vite";

/** Where a link of a README leads: to another study's page, to the web, or to a file that the page does not have. */
function target(href: string): string | null {
  if (/^https?:/.test(href)) return href;
  const study = /^(?:\.\.\/)?([\w-]+)\/README\.md/.exec(href)?.[1];
  return study ? `#view=studies&study=${study}` : null;
}

/** A README as HTML, and the pictures that it shows. Headings begin below those of the page. */
export function rendered(text: string): { title: string; html: string; pictures: string[] } {
  const pictures: string[] = [];
  let title = "";
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading) {
        const inner = this.parser.parseInline(tokens);
        if (depth === 1) {
          title = this.parser.parseInline(tokens, this.parser.textRenderer);
          return "";
        }
        return `<h${depth + 1}>${inner}</h${depth + 1}>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const inner = this.parser.parseInline(tokens);
        const to = target(href);
        return to === null ? inner : `<a href="${to.replaceAll("&", "&amp;")}">${inner}</a>`;
      },
      image({ href, text }: Tokens.Image) {
        const number = pictures.push(href) - 1;
        return `<img src="{picture ${number}}" alt="${text}">`;
      },
      // A cell without a text names no column. Wide tables and texts are scrolled, by keys too.
      tablecell({ header, tokens, align }: Tokens.TableCell) {
        const name = header && tokens.length > 0 ? "th" : "td";
        const where = align ? ` class="${align}"` : "";
        return `<${name}${where}>${this.parser.parseInline(tokens)}</${name}>\n`;
      },
      code({ text }: Tokens.Code) {
        const safe = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
        return `<pre tabindex="0"><code>${safe}</code></pre>\n`;
      },
    },
  });
  const html = (marked.parse(text) as string)
    .replaceAll("<table>", '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>')
    .replaceAll("</table>", "</table></div>");
  return { title, html, pictures };
}

/** Makes a module of each README of a study: its name, title and HTML. */
export function studies(): Plugin {
  return {
    name: "studies",
    enforce: "pre",
    transform(text, id) {
      if (!/\/studies\/(?:[\w-]+\/)?README\.md$/.test(id)) return null;
      const { title, html, pictures } = rendered(text);
      const imports = pictures.map((path, i) => `import p${i} from ${JSON.stringify(`./${path}?url`)};`);
      const pieces = html.split(/\{picture (\d+)\}/);
      const whole = pieces.map((piece, i) => (i % 2 === 0 ? JSON.stringify(piece) : `p${piece}`));
      const study = { name: id.split("/").at(-2), title };
      const code = `${imports.join("\n")}\nexport default { ...${JSON.stringify(study)}, html: ${whole.join(" + ")} };`;
      return { code, map: null };
    },
  };
}
