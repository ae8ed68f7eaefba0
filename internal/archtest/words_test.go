package archtest_test

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	lowerBudgets = flag.Bool("lower", false, "write lower budgets into testdata/words.txt")
	listWords    = flag.Bool("each", false, "print each banned word with its file and line")
)

// banned maps each word that the glossary forbids to the pattern that finds it in comments, test names and page texts.
var banned = map[string]*regexp.Regexp{
	"card":       regexp.MustCompile(`(?i)\b(?:network )?cards?\b`),
	"told":       regexp.MustCompile(`(?i)\btold\b`),
	"tells":      regexp.MustCompile(`(?i)\btells\b`),
	"heard":      regexp.MustCompile(`(?i)\b(?:un)?heard\b`),
	"silent":     regexp.MustCompile(`(?i)\b(?:host|agent)s? (?:is|are|was|were) silent\b`),
	"stands on":  regexp.MustCompile(`(?i)\bstands? on\b`),
	"cell":       regexp.MustCompile(`(?i)\bcells?\b`),
	"promised":   regexp.MustCompile(`(?i)\bpromise[sd]?\b`),
	"takeover":   regexp.MustCompile(`(?i)\b(?:takeover|taken over)\b`),
	"putback":    regexp.MustCompile(`(?i)\bput ?back\b`),
	"noun":       regexp.MustCompile(`(?i)\bnouns?\b`),
	"lookout":    regexp.MustCompile(`(?i)\blookouts?\b`),
	"door":       regexp.MustCompile(`(?i)\bdoors?\b`),
	"guard":      regexp.MustCompile(`(?i)\bguards?\b`),
	"series":     regexp.MustCompile(`(?i)\bseries\b`),
	"asked of":   regexp.MustCompile(`(?i)\basked of\b`),
	"by itself":  regexp.MustCompile(`(?i)\bby (?:itself|themselves)\b`),
	"let go of":  regexp.MustCompile(`(?i)\blet go of\b`),
	"as it is":   regexp.MustCompile(`(?i)\bas (?:it|they) (?:is|are|was|were)\b`),
	"whoever":    regexp.MustCompile(`(?i)\b(?:whoever|who asks|those who)\b`),
	"of which":   regexp.MustCompile(`(?i)\b(?:of|on|in|from) which\b`),
	"what is":    regexp.MustCompile(`(?i)(?:^|[.:;] )what (?:is|was|it|they|has)\b`),
	"that it is": regexp.MustCompile(`(?i)\bthat (?:it|they) (?:has|have|is|are|had)\b`),
}

// TestBannedWords fails when a word in the glossary's "Not" column occurs more often than its budget in
// testdata/words.txt. Budgets may only be lowered.
func TestBannedWords(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	first := map[string]string{}
	note := func(place, text string) {
		text = tableCell.ReplaceAllString(strings.Join(strings.Fields(text), " "), "")
		for word, pattern := range banned {
			for _, at := range pattern.FindAllStringIndex(text, -1) {
				counts[word]++
				if first[word] == "" {
					first[word] = place
				}
				if *listWords {
					fmt.Printf("%s: %s: …%s…\n", place, word, text[max(at[0]-60, 0):min(at[1]+60, len(text))])
				}
			}
		}
	}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "vendor" || name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && path != root):
			return filepath.SkipDir
		case strings.HasSuffix(name, "_templ.go"):
			return pageWords(path, note)
		case strings.HasSuffix(name, ".sql.go"), name == "words_test.go":
		case strings.HasSuffix(name, ".go"):
			return goWords(path, note)
		case strings.HasSuffix(name, ".templ"):
			return templateComments(path, note)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	budgets := readBudgets(t)
	if *lowerBudgets {
		writeBudgets(t, counts, budgets)
		return
	}
	for _, word := range slices.Sorted(maps.Keys(banned)) {
		switch budget, ok := budgets[word]; {
		case !ok:
			t.Errorf("%q has no budget in testdata/words.txt", word)
		case counts[word] > budget:
			t.Errorf("%q occurs %d times, more than its budget of %d; first in %s. The glossary names the standard term.", word, counts[word], budget, first[word])
		case counts[word] < budget:
			t.Errorf("%q occurs %d times, fewer than its budget of %d: run go test -lower here", word, counts[word], budget)
		}
	}
}

// tableCell matches the allowed use of "cell": kit.UsageCell and the host status columns are cells of an HTML table.
var tableCell = regexp.MustCompile(`(?i)\btable cells?\b`)

// goWords passes the comments and the names of tests of a Go file to note.
func goWords(path string, note func(place, text string)) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	place := func(p token.Pos) string { return fmt.Sprintf("%s:%d", path, files.Position(p).Line) }
	for _, group := range file.Comments {
		note(place(group.Pos()), group.Text())
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
			note(place(f.Pos()), humps.ReplaceAllString(f.Name.Name, "$1 $2"))
		}
	}
	return nil
}

var humps = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// templateComments passes each block of comment lines of a template to note.
func templateComments(path string, note func(place, text string)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var block []string
	for i, line := range strings.Split(string(text), "\n") {
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
			block = append(block, comment)
		} else if len(block) > 0 {
			note(fmt.Sprintf("%s:%d", path, i+1-len(block)), strings.Join(block, " "))
			block = nil
		}
	}
	return nil
}

var (
	shownAttributes = regexp.MustCompile(`\b(?:aria-label|title|placeholder|alt)="([^"]*)"`)
	tags            = regexp.MustCompile(`<[^>]*>`)
)

// pageWords passes the page texts in a template's generated code to note: text between tags, labels in attributes, and
// Go strings with a capital letter or a space. It skips class attributes, element IDs, paths and Go identifiers.
func pageWords(path string, note func(place, text string)) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	place := strings.TrimSuffix(path, "_templ.go") + ".templ"
	for _, d := range file.Decls {
		var page strings.Builder
		ast.Inspect(d, func(n ast.Node) bool {
			if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.IMPORT {
				return false
			}
			if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 3 {
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "WriteString" {
					page.WriteString(stringLiteral(call.Args[2]))
					return false
				}
			}
			if e, ok := n.(*ast.BasicLit); ok {
				if text := stringLiteral(e); strings.Contains(text, " ") || humps.MatchString("a"+text) {
					note(place, text)
				}
			}
			return true
		})
		for _, shown := range shownAttributes.FindAllStringSubmatch(page.String(), -1) {
			note(place, shown[1])
		}
		note(place, tags.ReplaceAllString(page.String(), " … "))
	}
	return nil
}

// stringLiteral returns the text of a string literal, or "" for any other expression.
func stringLiteral(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		text, _ := strconv.Unquote(lit.Value)
		return text
	}
	return ""
}

func readBudgets(t *testing.T) map[string]int {
	t.Helper()
	file, err := os.Open("testdata/words.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	budgets := map[string]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		word, number, _ := strings.Cut(lines.Text(), ": ")
		if budgets[word], err = strconv.Atoi(number); err != nil {
			t.Fatalf("testdata/words.txt: %v", err)
		}
	}
	return budgets
}

// writeBudgets lowers each budget to the current count, where the count is lower.
func writeBudgets(t *testing.T, counts, budgets map[string]int) {
	t.Helper()
	var out strings.Builder
	for _, word := range slices.Sorted(maps.Keys(banned)) {
		number := counts[word]
		if budget, ok := budgets[word]; ok {
			number = min(number, budget)
		}
		fmt.Fprintf(&out, "%s: %d\n", word, number)
	}
	if err := os.WriteFile("testdata/words.txt", []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// identifierText matches an element of a template whose text is the name of a Go type or function.
var identifierText = regexp.MustCompile(`>\s*([A-Z][a-z]+(?:[A-Z][a-z]*)+)\s*<`)

// TestTemplatesShowNoIdentifiers guards against a renaming that also changes the text of a page.
func TestTemplatesShowNoIdentifiers(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir("../../views", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".templ") {
			return err
		}
		files++
		text, err := os.ReadFile(path) //nolint:gosec // a file of this module
		for _, m := range identifierText.FindAllSubmatch(text, -1) {
			t.Errorf("%s shows the text %q", path, m[1])
		}
		return err
	})
	if err != nil || files < 50 {
		t.Fatalf("%d templates, %v", files, err)
	}
}
