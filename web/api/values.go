package api

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
	"quantix/web/bodylimit"
)

// maxValues is the maximum number of JSON values in a body (see bodylimit.CheckValueCount).
const maxValues = 25_000

// limitedJSON decodes JSON bodies of the API within the limits.
var limitedJSON = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(text []byte, into any) error {
		if err := bodylimit.CheckValueCount(text, maxValues); err != nil {
			return err
		}
		if err := checkDuplicateNames(text); err != nil {
			return err
		}
		return json.Unmarshal(text, into)
	},
}

// checkDuplicateNames refuses an object with a duplicate name, because some JSON decoders take the first value and
// others the last. It ignores all other errors, which the decoder reports later.
func checkDuplicateNames(text []byte) error {
	_, err := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true)).ReadValue()
	if twice, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return fleet.Errorf(fleet.Malformed, "The JSON has the name %q twice. Send each name once.", fieldNameFromJSONPointer(string(twice.JSONPointer)))
	}
	return nil
}

func fieldNameFromJSONPointer(pointer string) string {
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
		return nil, fleet.Errorf(fleet.Malformed, "This is not valid YAML: %s.", strings.TrimPrefix(fieldNameFromJSONPointer(err.Error()), "yaml: "))
	}
	if err := read.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fleet.Errorf(fleet.Malformed, "The YAML has more than one document. Send one document per request.")
	}
	if hasYAMLAlias(&doc) {
		return nil, fleet.Errorf(fleet.Malformed, "The YAML has aliases, which are not supported. Replace each alias by its value.")
	}
	var tree any
	if err := doc.Decode(&tree); err != nil {
		return nil, fleet.Errorf(fleet.Malformed, "This is not valid YAML: %s.", strings.TrimPrefix(fieldNameFromJSONPointer(err.Error()), "yaml: "))
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fleet.Errorf(fleet.Malformed, "JSON cannot express this YAML: the YAML has keys that are not strings, or infinite numbers.")
	}
	return asJSON, nil
}

func hasYAMLAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, hasYAMLAlias)
}
