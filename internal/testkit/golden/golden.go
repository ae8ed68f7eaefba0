// Package golden compares JSON that other programs read with a golden file. Names may only be added: "go test -update"
// writes added names to the file, and refuses removed names and changed types.
package golden

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write into golden files what was added")

var (
	fieldName = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	moment    = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
)

// anyValue is the placeholder for a value of any type.
const anyValue = "any JSON"

// Types compares the JSON of each type with the file. The values only select the types; every field is filled. The file
// has an object with one member for each type.
func Types(t *testing.T, file string, values ...any) {
	t.Helper()
	shapes := make(map[string]any, len(values))
	for _, v := range values {
		kind := reflect.TypeOf(v)
		filled := reflect.New(kind)
		fillWithValues(t, filled.Elem())
		shapes[kind.Name()] = filled.Interface()
	}
	JSON(t, file, shapes)
}

// JSON compares the JSON of v, which may be a json.RawMessage, with the file.
func JSON(t *testing.T, file string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		return // after a failure, nothing is written
	}
	if err := compareWithFile(file, append(got, '\n'), *update); err != nil {
		t.Error(err)
	}
}

// fillWithValues sets v and all its fields to non-empty values. Strings contain the name of their type.
func fillWithValues(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`"` + anyValue + `"`))
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
		fillWithValues(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillWithValues(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillWithValues(t, key)
		fillWithValues(t, value)
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
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(moment))
		return
	case reflect.TypeFor[netip.Prefix]():
		v.Set(reflect.ValueOf(netip.MustParsePrefix("192.0.2.0/24")))
		return
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if !field.Anonymous && !fieldName.MatchString(name) {
			t.Errorf("%s.%s: the JSON name %q is not in lowerCamelCase", v.Type(), field.Name, name)
		}
		fillWithValues(t, v.Field(i))
	}
}

// Text compares the text with the file. "go test -update" rewrites the file, for a review of the difference.
func Text(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}
