package archtest

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// externalNames are names of libvirt, QEMU, Linux and PostgreSQL that decision records mention and that do not occur in
// this repository's code.
var externalNames = []string{
	"virDomainBlockCopy", "virDomainBlockResize", "virDomainSetMetadata", "virNetworkUpdate", "virsh nwfilter-binding-delete",
	"fw_cfg", "iscsi:TARGET/LUN", "rbd:POOL/IMAGE", "/dev/GROUP/VOLUME",
	"KillMode=process", "SO_BINDTODEVICE", "memhp_default_state=online_movable",
	"DISCARD PLANS", "pg_trgm", "postgresql-contrib",
	"views/<type>", "web/<type>.go", // placeholders of a guide
}

var (
	codeSpan      = regexp.MustCompile("`([^`]+)`")
	codeWord      = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]{2,}`)
	qualifiedName = regexp.MustCompile(`\w+(?:\.\w+)+`)
)

// TestDecisionRecordsNameExistingCode checks that the names in backticks in decision records exist in the code.
func TestDecisionRecordsNameExistingCode(t *testing.T) {
	t.Parallel()
	names := readCodeNames(t)
	files, err := filepath.Glob(filepath.Join(adrDir, "[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no decision records in %s: %v", adrDir, err)
	}
	guides, err := filepath.Glob(filepath.Join(adrDir, "guide", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, guides...) {
		text := strings.ReplaceAll(strings.ReplaceAll(readFile(t, path), "```", ""), "\n", " ")
		for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
			if missing := names.firstMissing(span[1]); missing != "" {
				t.Errorf("%s names `%s`, but %s does not exist in the code", filepath.Base(path), span[1], missing)
			}
		}
	}
}

// codeNames are the names in the repository's code, without comments.
type codeNames struct {
	words   map[string]bool            // words in Go code, queries, templates and scripts
	bases   map[string]bool            // base names of files and directories
	members map[string]map[string]bool // by package or type: the names that it declares
}

// firstMissing returns the first name in the code span that does not exist, or "".
func (c *codeNames) firstMissing(span string) string {
	if slices.Contains(externalNames, span) {
		return ""
	}
	if first, _, ok := strings.Cut(span, "/"); ok && slices.Contains([]string{"agent", "control", "db", "internal", "static", "views", "web"}, first) {
		for _, path := range []string{span, filepath.Join("internal", span)} {
			if _, err := os.Stat(filepath.Join(repositoryRoot, path)); !errors.Is(err, fs.ErrNotExist) {
				return ""
			}
		}
		return span
	}
	if c.bases[filepath.Base(span)] {
		return ""
	}
	for _, word := range codeWord.FindAllString(span, -1) {
		if !c.words[word] {
			return word
		}
	}
	for _, name := range qualifiedName.FindAllString(span, -1) {
		parts := strings.Split(name, ".")
		for i, part := range parts[1:] {
			if of := c.members[parts[i]]; of != nil && ast.IsExported(part) && !of[part] {
				return parts[i] + "." + part
			}
		}
	}
	return ""
}

func readCodeNames(t *testing.T) *codeNames {
	t.Helper()
	c := &codeNames{words: map[string]bool{}, bases: map[string]bool{}, members: map[string]map[string]bool{}}
	err := filepath.WalkDir(repositoryRoot, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		c.bases[name] = true
		// Migrations contain names of earlier versions.
		if d.IsDir() && path != repositoryRoot && (strings.HasPrefix(name, ".") || name == "adr" || name == "migration" || name == "node_modules") {
			return filepath.SkipDir
		}
		switch filepath.Ext(name) {
		case ".go":
			if name != "adr_names_test.go" {
				return c.addGoFile(path)
			}
		case ".sql", ".templ", ".js", ".yml":
			text, err := os.ReadFile(path)
			c.addWords(string(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// addGoFile adds the file's identifiers and declarations. It also adds the words of string literals that are not
// sentences.
func (c *codeNames) addGoFile(path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	pkg := strings.TrimSuffix(file.Name.Name, "_test")
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			c.words[n.Name] = true
		case *ast.BasicLit:
			if n.Kind == token.STRING && (n.Value[0] == '`' || !strings.Contains(n.Value, " ")) {
				c.addWords(n.Value)
			}
		case *ast.FuncDecl:
			c.addDeclared(pkg, n.Name)
			if n.Recv != nil {
				c.addDeclared(receiverType(n.Recv.List[0].Type), n.Name)
			}
		case *ast.ValueSpec:
			c.addDeclared(pkg, n.Names...)
		case *ast.TypeSpec:
			c.addDeclared(pkg, n.Name)
			switch body := n.Type.(type) {
			case *ast.StructType:
				c.addFields(n.Name.Name, body.Fields)
			case *ast.InterfaceType:
				c.addFields(n.Name.Name, body.Methods)
			}
		}
		return true
	})
	return nil
}

func (c *codeNames) addWords(text string) {
	for _, word := range codeWord.FindAllString(text, -1) {
		c.words[word] = true
	}
}

func (c *codeNames) addDeclared(owner string, names ...*ast.Ident) {
	if c.members[owner] == nil {
		c.members[owner] = map[string]bool{}
	}
	for _, name := range names {
		c.members[owner][name.Name] = true
	}
}

func (c *codeNames) addFields(owner string, fields *ast.FieldList) {
	for _, field := range fields.List {
		c.addDeclared(owner, field.Names...)
	}
}

// receiverType returns the name of a method's receiver type, without pointer and type parameters.
func receiverType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverType(e.X)
	case *ast.IndexExpr:
		return receiverType(e.X)
	case *ast.IndexListExpr:
		return receiverType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
