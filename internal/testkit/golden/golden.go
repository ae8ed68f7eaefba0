// Package golden holds the JSON of types to a file, so that no field is renamed or taken away unnoticed.
package golden

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew")

var (
	fieldName = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	moment    = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
)

// Types compares the JSON of each type, every field filled, with the file: an object with one member a type. The values
// only say of which type their members are. "go test -update" writes the file.
func Types(t *testing.T, file string, values ...any) {
	t.Helper()
	shapes := make(map[string]any, len(values))
	for _, v := range values {
		kind := reflect.TypeOf(v)
		filled := reflect.New(kind)
		fill(t, filled.Elem())
		shapes[kind.Name()] = filled.Interface()
	}
	got, err := json.MarshalIndent(shapes, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("JSON fields are only ever added; for an added one run \"go test -update\" here (-%s +now):\n%s", file, diff)
	}
}

// fill gives v and all that is in it a value that JSON shows; texts say their type.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`"any JSON"`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.Type().Name())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		fillStruct(t, v)
	default:
		t.Fatalf("%s is of a kind that JSON does not carry here", v.Type())
	}
}

func fillStruct(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(moment))
		return
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.Anonymous && !fieldName.MatchString(name) {
			t.Errorf("%s.%s: the JSON name %q is not in lowerCamelCase", v.Type(), field.Name, name)
		}
		fill(t, v.Field(i))
	}
}
