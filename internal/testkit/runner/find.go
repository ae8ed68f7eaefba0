package main

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ordealTests returns, by package, the names of the tests in files with the build tag "ordeal", and the tests in
// wholeTests.
func ordealTests(root string) (map[string][]string, error) {
	tests := map[string][]string{}
	for pkg, names := range wholeTests {
		tests[pkg] = slices.Clone(names)
	}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		names, err := taggedTests(path)
		if err != nil || len(names) == 0 {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		tests[filepath.ToSlash(dir)] = append(tests[filepath.ToSlash(dir)], names...)
		return nil
	})
	return tests, err
}

// taggedTests returns the tests of a file that is built only with the tag.
func taggedTests(path string) (names []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if !isOrdealOnly(file) {
		return nil, nil
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

func isOrdealOnly(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			expr, err := constraint.Parse(c.Text)
			if err != nil || c.Pos() > file.Package {
				continue
			}
			with := expr.Eval(func(string) bool { return true })
			without := expr.Eval(func(tag string) bool { return tag != "ordeal" })
			if with && !without {
				return true
			}
		}
	}
	return false
}
