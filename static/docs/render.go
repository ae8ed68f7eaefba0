package docs

import (
	"bytes"
	"errors"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown renders Markdown without raw HTML and without links to scripts, which is goldmark's default.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))), // the pages' CSP forbids inline styles
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodeRenderer{}, 100))),
)

// renderedFile is a rendered file, with the groups of chapters that it links to.
type renderedFile struct {
	Chapter
	groups []ChapterGroup
}

func renderMarkdown(source []byte) (renderedFile, error) {
	root := markdown.Parser().Parse(text.NewReader(source))
	p := renderedFile{}
	if err := p.collectSections(root, source); err != nil {
		return p, err
	}
	var out bytes.Buffer
	err := markdown.Renderer().Render(&out, source, root)
	p.HTML = out.String()
	return p, err
}

// collectSections collects sections and groups, and turns links to files into links to pages.
func (p *renderedFile) collectSections(root ast.Node, source []byte) error {
	var below strings.Builder
	flush := func() {
		if n := len(p.Sections); n > 0 {
			p.Sections[n-1].text = strings.Join(strings.Fields(below.String()), " ")
		}
		below.Reset()
	}
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if n.Type() == ast.TypeBlock {
			below.WriteByte(' ')
		}
		switch n := n.(type) {
		case *ast.Heading:
			flush()
			s := Section{Title: plainText(n, source), Level: n.Level, Anchor: headingID(n)}
			if len(p.Sections) == 0 {
				p.Title, s.Anchor = s.Title, ""
			}
			p.Sections = append(p.Sections, s)
			return ast.WalkSkipChildren, nil
		case *ast.Link:
			p.rewriteLink(n)
		case *ast.Text:
			below.Write(n.Segment.Value(source))
			if n.SoftLineBreak() {
				below.WriteByte(' ')
			}
		case *ast.FencedCodeBlock:
			below.Write(n.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	flush()
	if err == nil && (len(p.Sections) == 0 || p.Sections[0].Level != 1) {
		err = errors.New("the chapter does not begin with its title")
	}
	return err
}

// rewriteLink rewrites a link to a chapter's file ("storage.md#nfs") to the chapter's page. Links within the chapter
// ("#nfs") and to other sites stay.
func (p *renderedFile) rewriteLink(n *ast.Link) {
	file, anchor, _ := strings.Cut(string(n.Destination), "#")
	if _, ok := File(file); ok {
		n.Destination = []byte("/help/" + file)
		return
	}
	name, ok := strings.CutSuffix(file, ".md")
	if !ok || strings.Contains(name, "/") {
		return
	}
	to := "/help"
	if name != "README" {
		to += "/" + name
		if len(p.Sections) > 1 && anchor == "" {
			p.addChapterToGroup(name)
		}
	}
	if anchor != "" {
		to += "#" + anchor
	}
	n.Destination = []byte(to)
}

// addChapterToGroup adds a chapter to the group of the last heading.
func (p *renderedFile) addChapterToGroup(name string) {
	title := p.Sections[len(p.Sections)-1].Title
	if n := len(p.groups); n == 0 || p.groups[n-1].Title != title {
		p.groups = append(p.groups, ChapterGroup{Title: title})
	}
	g := &p.groups[len(p.groups)-1]
	g.Chapters = append(g.Chapters, &Chapter{Name: name})
}

func plainText(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if t, ok := n.(*ast.Text); ok && entering {
			out.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

func headingID(n *ast.Heading) string {
	id, _ := n.AttributeString("id")
	text, _ := id.([]byte)
	return string(text)
}

// nodeRenderer renders the nodes that differ from goldmark's output: headings link to themselves, and the keyboard can
// scroll wide tables and code blocks.
type nodeRenderer struct{}

func (nodeRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, renderHeading)
	r.Register(ast.KindFencedCodeBlock, renderCode)
	r.Register(extast.KindTable, renderTable)
}

func renderHeading(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.Heading)
	tag := "h" + string(rune('0'+n.Level))
	id := util.EscapeHTML([]byte(headingID(n)))
	switch {
	case entering && n.Level == 1:
		_, _ = w.WriteString("<h1>") // bufio returns a write error at the flush
	case entering:
		_, _ = w.WriteString("<" + tag + ` id="` + string(id) + `">`)
	case n.Level == 1:
		_, _ = w.WriteString("</h1>\n")
	default:
		label := util.EscapeHTML([]byte("Link to " + plainText(n, source)))
		_, _ = w.WriteString(` <a class="anchor" href="#` + string(id) + `" aria-label="` + string(label) + `">#</a></` + tag + ">\n")
	}
	return ast.WalkContinue, nil
}

func renderCode(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<pre tabindex="0"><code>`)
		_, _ = w.Write(util.EscapeHTML(node.Lines().Value(source)))
		_, _ = w.WriteString("</code></pre>\n")
	}
	return ast.WalkSkipChildren, nil
}

func renderTable(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		label := util.EscapeHTML([]byte(tableLabel(node, source)))
		_, _ = w.WriteString(`<div class="table-wrap" tabindex="0" role="region" aria-label="` + string(label) + `"><table>` + "\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// tableLabel is the accessible name of a table: the heading above the table, and the header of the first column. Thus
// the labels of a chapter differ.
func tableLabel(table ast.Node, source []byte) string {
	column := plainText(table.FirstChild().FirstChild(), source)
	for n := table.PreviousSibling(); n != nil; n = n.PreviousSibling() {
		if n.Kind() == ast.KindHeading {
			return plainText(n, source) + ": " + column
		}
	}
	return column
}
