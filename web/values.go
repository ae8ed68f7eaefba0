package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"quantix/internal/fleet"
)

// Limits on the number of JSON values in a body. Each list and object counts as one value. An empty object has three
// bytes but takes a kilobyte to decode, so a size limit alone does not bound memory.
const (
	maxAPIValues   = 25_000
	maxAgentValues = 512 << 10 // a host's report lists all its VMs, volumes and devices
)

const tooManyValuesText = "The request holds more than %d values. Send less at once."

// checkValueCount returns TooLarge for a body of more than most values. It runs before the body is decoded.
func checkValueCount(text []byte, most int) error {
	if quick := 1 + bytes.Count(text, []byte{','}) + bytes.Count(text, []byte{'{'}) + bytes.Count(text, []byte{'['}); quick <= most {
		return nil // an upper bound of the number of values, because strings may contain these characters too
	}
	if countJSONValues(text) > most {
		return fleet.Errorf(fleet.TooLarge, tooManyValuesText, most)
	}
	return nil
}

// limitedJSON decodes JSON bodies of the API within the limits.
var limitedJSON = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(text []byte, into any) error {
		if err := checkValueCount(text, maxAPIValues); err != nil {
			return err
		}
		if err := checkDuplicateNames(text); err != nil {
			return err
		}
		return json.Unmarshal(text, into)
	},
}

// checkDuplicateNames refuses an object with a duplicate name, because some decoders take the first value and others
// the last. It ignores all other errors, which the decoder reports.
func checkDuplicateNames(text []byte) error {
	_, err := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true)).ReadValue()
	if twice, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return fleet.Errorf(fleet.Malformed, "The JSON has %q twice. Send each name once.", fieldNameOfPointer(string(twice.JSONPointer)))
	}
	return nil
}

func fieldNameOfPointer(pointer string) string {
	return strings.ToValidUTF8(pointer[:min(len(pointer), 200)], "")
}

// limitedYAML decodes YAML bodies of the API, limited to what JSON can express: one document without aliases.
var limitedYAML = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal, // JSON is valid YAML
	Unmarshal: func(text []byte, into any) error {
		asJSON, err := yamlToJSON(text)
		if err != nil {
			return err
		}
		return limitedJSON.Unmarshal(asJSON, into)
	},
}

func yamlToJSON(text []byte) ([]byte, error) {
	read := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := read.Decode(&doc); err != nil {
		return nil, fleet.Errorf(fleet.Malformed, "This is not valid YAML: %s.", strings.TrimPrefix(fieldNameOfPointer(err.Error()), "yaml: "))
	}
	if err := read.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fleet.Errorf(fleet.Malformed, "The YAML has more than one document. Send one at a time.")
	}
	if hasYAMLAlias(&doc) {
		return nil, fleet.Errorf(fleet.Malformed, "The YAML has aliases, which are not supported. Replace each alias by its value.")
	}
	var tree any
	if err := doc.Decode(&tree); err != nil {
		return nil, fleet.Errorf(fleet.Malformed, "This is not valid YAML: %s.", strings.TrimPrefix(fieldNameOfPointer(err.Error()), "yaml: "))
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fleet.Errorf(fleet.Malformed, "JSON cannot express this YAML: it has names that are no texts, or infinite numbers.")
	}
	return asJSON, nil
}

func hasYAMLAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasYAMLAlias)
}

// countJSONValues returns the size of a JSON text for checkValueCount: each list, object, string, number, boolean and
// null counts as one. For invalid JSON the result is arbitrary.
func countJSONValues(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
		case ':':
			n-- // the string before the colon was a name, not a value
		case '"':
			n++
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			n++
		default: // a number, true, false or null
			n++
			for i+1 < len(text) && !endsJSONScalar[text[i+1]] {
				i++
			}
		}
	}
	return n
}

var endsJSONScalar = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ']': true, '}': true, ':': true, '"': true, '[': true, '{': true}
