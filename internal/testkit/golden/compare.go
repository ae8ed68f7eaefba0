package golden

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// compareWithFile compares got with the file, or writes got to the file. It refuses to write if the file has a name
// that got lacks.
func compareWithFile(file string, got []byte, write bool) error {
	was, err := os.ReadFile(file)
	switch {
	case write && errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		old, err := shapeOf(was)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		now, err := shapeOf(got)
		if err != nil {
			return err
		}
		if lost := removedNames("", old, now); len(lost) > 0 {
			return fmt.Errorf("%s: other programs read these names, so they must not be removed or change their types:\n\t%s", file, strings.Join(lost, "\n\t"))
		}
	}
	if write {
		return os.WriteFile(file, got, 0o644)
	}
	if diff := cmp.Diff(string(was), string(got)); diff != "" {
		return fmt.Errorf("%s: run \"go test -update\" in this package to add the new names (-file +now):\n%s", file, diff)
	}
	return nil
}

// shapeOf returns the types in a document, without values. An object becomes a map, an array a slice with the union of
// its elements' shapes, null becomes nil, and any other value the name of its type.
func shapeOf(document []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var v any
	err := decoder.Decode(&v)
	return shapeOfValue(v), err
}

func shapeOfValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = shapeOfValue(member)
		}
		return v
	case []any:
		var all any
		for _, element := range v {
			all = mergeShapes(all, shapeOfValue(element))
		}
		return []any{all}
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return "an integer"
		}
		return "a number"
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return "a time"
		}
		if v == anyValue {
			return v
		}
		return "a text"
	case bool:
		return "a boolean"
	}
	return nil
}

// mergeShapes merges two shapes.
func mergeShapes(a, b any) any {
	switch x := a.(type) {
	case nil:
		return b
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			for name := range y {
				x[name] = mergeShapes(x[name], y[name])
			}
		}
	case []any:
		if y, ok := b.([]any); ok {
			x[0] = mergeShapes(x[0], y[0])
		}
	}
	return a
}

// removedNames lists the names that the shape before has and the shape after lacks. at is the path of both shapes.
func removedNames(at string, before, after any) (lost []string) {
	switch x := before.(type) {
	case map[string]any:
		y, ok := after.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(x)) {
			path := strings.TrimPrefix(at+"."+name, ".")
			if _, ok := y[name]; !ok {
				lost = append(lost, path+" was removed")
				continue
			}
			lost = append(lost, removedNames(path, x[name], y[name])...)
		}
		return lost
	case []any:
		if y, ok := after.([]any); ok {
			return removedNames(at+"[]", x[0], y[0])
		}
	case nil:
		return nil
	}
	if typeName(before) != typeName(after) {
		lost = append(lost, fmt.Sprintf("%s was %s and is %s", at, typeName(before), typeName(after)))
	}
	return lost
}

func typeName(shape any) string {
	switch x := shape.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return x
	}
	return "nothing"
}
