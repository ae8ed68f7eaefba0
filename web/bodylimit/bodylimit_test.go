package bodylimit

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// countDecodedValues returns the number of values that encoding/json decodes from the text.
func countDecodedValues(text []byte) (n int) {
	from := json.NewDecoder(bytes.NewReader(text))
	var in []bool // for each open list or object: whether it is an object
	name := false // the next token is a name, unless it ends the object
	for {
		token, err := from.Token()
		if err == io.EOF {
			return n
		}
		switch token {
		case json.Delim('}'), json.Delim(']'):
			in = in[:len(in)-1]
			name = len(in) > 0 && in[len(in)-1]
			continue
		}
		if name {
			name = false
			continue
		}
		n++
		switch token {
		case json.Delim('{'), json.Delim('['):
			in = append(in, token == json.Delim('{'))
		}
		name = len(in) > 0 && in[len(in)-1]
	}
}

func TestJSONValueCountMatchesDecoder(t *testing.T) {
	for text, want := range map[string]int{
		`{}`: 1, `[]`: 1, ` null `: 1, `"a,b:{["`: 1, `[1,-2.5e3,true,false,null,"x"]`: 7, `{"a":1,"b":[{},{}],"c":{"d":"\\\",,"}}`: 7,
		"{\n\t\"a\" : [ 1 , 2 ]\r\n}": 4, `"\\"`: 1, `["\"",1]`: 3, `[[[[]]]]`: 4, `[1,2]` + " ": 3,
	} {
		if got, read := countJSONValues([]byte(text)), countDecodedValues([]byte(text)); got != want || read != want {
			t.Errorf("%s: values returns %d, encoding/json reads %d, want %d", text, got, read, want)
		}
	}
	for _, broken := range []string{"", `"`, `"\`, `[`, `:::`, `{"a`, "\x00", `nul`} {
		countJSONValues([]byte(broken)) // any result is correct, but the call must return
	}
}

func FuzzValues(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c,\"d"}],"e":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := countJSONValues(text)
		if json.Valid(text) && got != countDecodedValues(text) {
			t.Errorf("%q: %d values, want %d", text, got, countDecodedValues(text))
		}
	})
}

func TestCommasInsideStringNotCountedAsValues(t *testing.T) {
	text := []byte(`{"userData":"` + strings.Repeat(",{[", 20_000) + `"}`)
	if err := CheckValueCount(text, 10); err != nil {
		t.Error(err)
	}
	if err := CheckValueCount([]byte("["+strings.Repeat("0,", 10)+"0]"), 10); err == nil {
		t.Error("12 values are accepted with a limit of 10")
	}
}
