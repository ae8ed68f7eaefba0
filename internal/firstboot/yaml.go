package firstboot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a document, which limit the cost of checking it.
const (
	maxDepth = 32
	maxNodes = 20_000
)

// docError is an error in a document, with its line.
type docError struct {
	line    int // 0: the error concerns the whole document
	message string
}

func (f docError) Error() string {
	if f.line == 0 {
		return f.message
	}
	return fmt.Sprintf("Line %d: %s", f.line, f.message)
}

// Forms of plain scalars in cloud-init's reader, which follows YAML 1.1.
var (
	boolForm  = regexp.MustCompile(`^(yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$`)
	trueForm  = regexp.MustCompile(`^([yY]|[tT]|on|On|ON)`)
	nullForm  = regexp.MustCompile(`^(~|null|Null|NULL|)$`)
	intForm   = regexp.MustCompile(`^[-+]?(0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$`)
	floatForm = regexp.MustCompile(`^([-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
	baseForm  = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)
	timeForm  = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?$`)
)

// yamlDocument is a YAML document, as nodes and as the value that cloud-init reads.
type yamlDocument struct {
	root *yaml.Node
	tree any
}

// readYAML reads one document. It refuses everything that other readers interpret differently or that expands: anchors,
// aliases, tags, duplicate keys, several documents.
func readYAML(source string) (yamlDocument, error) {
	if !isPlainText(source) {
		return yamlDocument{}, docError{0, "This is no text: it has control characters, or is not UTF-8."}
	}
	d := yaml.NewDecoder(strings.NewReader(source))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return yamlDocument{}, docError{0, "The document is empty."}
	} else if err != nil {
		return yamlDocument{}, toDocError(err)
	}
	var more yaml.Node
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return yamlDocument{}, docError{more.Line, "This is more than one document. Give a single document."}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return yamlDocument{}, docError{0, "The document is empty."}
	}
	r := yamlReader{}
	tree, err := r.read(doc.Content[0], 1)
	return yamlDocument{doc.Content[0], tree}, err
}

var yamlAt = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

// toDocError converts an error of the YAML parser into a docError.
func toDocError(err error) error {
	at := 0
	if m := yamlAt.FindStringSubmatch(err.Error()); m != nil {
		at, _ = strconv.Atoi(m[1])
	}
	return docError{at, "This is no YAML: " + shortenTo(yamlAt.ReplaceAllString(err.Error(), ""), 200) + "."}
}

type yamlReader struct{ nodes int }

func (r *yamlReader) read(n *yaml.Node, depth int) (any, error) {
	if r.nodes++; r.nodes > maxNodes {
		return nil, docError{n.Line, fmt.Sprintf("This has more than %d values.", maxNodes)}
	}
	switch {
	case depth > maxDepth:
		return nil, docError{n.Line, fmt.Sprintf("This is nested more than %d deep.", maxDepth)}
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return nil, docError{n.Line, "Anchors (&) and aliases (*) are not accepted. Write out the values."}
	case n.Style&yaml.TaggedStyle != 0:
		return nil, docError{n.Line, fmt.Sprintf("The tag %s is not accepted. Leave it out.", shortenForError(n.Tag))}
	}
	switch n.Kind {
	case yaml.MappingNode:
		return r.readMapping(n, depth)
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, x := range n.Content {
			v, err := r.read(x, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.ScalarNode:
		return parseScalar(n)
	}
	return nil, docError{n.Line, "This YAML is not supported."}
}

func (r *yamlReader) readMapping(n *yaml.Node, depth int) (any, error) {
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		k, err := r.read(key, depth+1)
		if err != nil {
			return nil, err
		}
		name, ok := k.(string)
		switch {
		case key.Kind != yaml.ScalarNode:
			return nil, docError{key.Line, "A key must be a word. Write a variable such as {{vm.name}} in quotes."}
		case !ok:
			return nil, docError{key.Line, fmt.Sprintf("cloud-init does not read the key %s as text. Put the key in quotes.", shortenForError(key.Value))}
		case name == "<<":
			return nil, docError{key.Line, "Merge keys (<<) are not accepted. Write out the values."}
		}
		if _, twice := out[name]; twice {
			return nil, docError{key.Line, fmt.Sprintf("The key %s occurs twice.", shortenForError(name))}
		}
		if out[name], err = r.read(value, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parseScalar returns the value of a plain scalar, as cloud-init reads it.
func parseScalar(n *yaml.Node) (any, error) {
	v := n.Value
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return v, nil
	}
	switch {
	case nullForm.MatchString(v):
		return nil, nil
	case boolForm.MatchString(v):
		return trueForm.MatchString(v), nil
	case intForm.MatchString(v):
		whole, ok := new(big.Int).SetString(strings.ReplaceAll(v, "_", ""), 0)
		if !ok || !whole.IsInt64() {
			return nil, docError{n.Line, fmt.Sprintf("The number %s is too large or invalid. Put it in quotes.", shortenForError(v))}
		}
		return whole.Int64(), nil
	case floatForm.MatchString(v):
		number, err := strconv.ParseFloat(strings.ReplaceAll(v, "_", ""), 64)
		if err != nil {
			return nil, docError{n.Line, fmt.Sprintf("%s is not a supported number. Put it in quotes.", shortenForError(v))}
		}
		return number, nil
	case baseForm.MatchString(v):
		return nil, docError{n.Line, fmt.Sprintf("cloud-init reads %s as a number of base 60. Put it in quotes.", shortenForError(v))}
	case timeForm.MatchString(v):
		return nil, docError{n.Line, fmt.Sprintf("cloud-init reads %s as a date. Put it in quotes.", shortenForError(v))}
	}
	return v, nil
}

// writeYAML returns a node tree or a value as YAML text.
func writeYAML(v any) (string, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return out.String(), e.Close()
}

// lineOfPath returns the line of the value at path, or of the closest parent that exists.
func lineOfPath(n *yaml.Node, path []string) int {
	for _, p := range path {
		next := (*yaml.Node)(nil)
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == p {
					next = n.Content[i+1]
					if next.Kind == yaml.ScalarNode || next.Line == 0 {
						break
					}
					if len(path) == 1 {
						next = n.Content[i]
					}
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(p); err == nil && i >= 0 && i < len(n.Content) {
				next = n.Content[i]
			}
		}
		if next == nil {
			break
		}
		n = next
	}
	return n.Line
}

func shortenTo(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
