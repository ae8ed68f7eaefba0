package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlReader reads a file node by node and collects every error with its line. The errors never contain a value,
// because the file may contain a password. A strict decoder (goccy/go-yaml) would stop at the first error, quote its
// line, and neither recognize keys of the other program (portal or agent) nor suggest similar names.
type yamlReader struct {
	from  settingsSource
	file  string
	given settingOrigins
	found settingValues
	errs  []error
}

func parseYAML(from settingsSource, file string, text []byte, given settingOrigins) (settingValues, error) {
	r := &yamlReader{from: from, file: file, given: given, found: settingValues{}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return r.found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the file must contain one YAML document, without a line of --- between settings", file)
	}
	root := resolveAlias(document.Content[0])
	if root.Tag != "!!null" {
		r.readSection("", root)
	}
	return r.found, errors.Join(r.errs...)
}

// readSection reads the mapping at path. An empty path means the whole file.
func (r *yamlReader) readSection(path string, node *yaml.Node) {
	if node.Kind != yaml.MappingNode {
		r.addError(node, "%s must be a group of settings (name: value), not %s", quotePathOr(path, "the file"), nodeKindText(node))
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], resolveAlias(node.Content[i+1])
		key := name.Value
		if path != "" {
			key = path + "." + key
		}
		s, known := findSetting(r.from.settings, key, func(s setting) string { return s.key })
		switch {
		case known:
			r.readValue(s, name, value)
		case r.isSection(key):
			r.readSection(key, value)
		default:
			r.reportUnknownKey(key, name)
		}
	}
}

func (r *yamlReader) isSection(key string) bool {
	for _, s := range r.from.settings {
		if strings.HasPrefix(s.key, key+".") {
			return true
		}
	}
	return false
}

func (r *yamlReader) reportUnknownKey(key string, name *yaml.Node) {
	for _, s := range r.from.others {
		if s.key == key || strings.HasPrefix(s.key, key+".") {
			r.addError(name, "unknown key %q; it belongs in the other program's file (portal.yaml is the portal's, agent.yaml the agent's)", key)
			return
		}
	}
	r.addError(name, "unknown key %q%s", key, didYouMean(key, settingNames(r.from.settings, func(s setting) string { return s.key })))
}

func (r *yamlReader) readValue(s setting, name, node *yaml.Node) {
	if _, twice := r.found[s.key]; twice {
		r.addError(name, "%q is set twice; remove one of the lines", s.key)
		return
	}
	var value any
	var err error
	var want string
	switch s.value.(type) {
	case int:
		var number int
		if want = "a whole number"; node.Tag == "!!int" {
			err = node.Decode(&number)
			value, want = number, ""
		}
	case bool:
		var yes bool
		if want = "true or false"; node.Tag == "!!bool" {
			err = node.Decode(&yes)
			value, want = yes, ""
		}
	case keyValues:
		list, ok := readPairs(node)
		if want = "a group of texts (one key: value per line, values in quotes if they look like numbers), or a list of key=value"; ok {
			value, want = list, ""
		}
	case []string:
		list := []string{}
		want = "a list of texts (one per line, each after a hyphen)"
		if node.Kind == yaml.SequenceNode && isAllText(node.Content) {
			err = node.Decode(&list)
			value, want = list, ""
		}
	default:
		var text string
		if want = "a text (in quotes if it looks like a number)"; node.Tag == "!!str" {
			err = node.Decode(&text)
			value, want = text, ""
		}
	}
	switch {
	case want != "":
		r.addError(node, "%q must be %s, not %s", s.key, want, nodeKindText(node))
	case err != nil:
		r.addError(node, "%q cannot be read", s.key)
	default:
		r.found[s.key] = value
		r.given[s.key] = fmt.Sprintf("%s:%d: %s", r.file, name.Line, s.key)
	}
}

func (r *yamlReader) addError(node *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.file, node.Line, fmt.Sprintf(format, args...)))
}

// readPairs reads a group of texts, or a list of texts "key=value", as a list of "key=value".
func readPairs(node *yaml.Node) (list []string, ok bool) {
	list = []string{}
	if !isAllText(node.Content) {
		return nil, false
	}
	switch node.Kind {
	case yaml.SequenceNode:
		return list, node.Decode(&list) == nil
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			list = append(list, resolveAlias(node.Content[i]).Value+"="+resolveAlias(node.Content[i+1]).Value)
		}
		return list, true
	}
	return nil, false
}

func isAllText(nodes []*yaml.Node) bool {
	for _, node := range nodes {
		if resolveAlias(node).Tag != "!!str" {
			return false
		}
	}
	return true
}

// resolveAlias returns the node that an alias (*name) refers to; any other node unchanged.
func resolveAlias(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

func nodeKindText(node *yaml.Node) string {
	switch node.Tag {
	case "!!null":
		return "empty (remove the line to keep the default)"
	case "!!str":
		return "a text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!seq":
		return "a list"
	case "!!map":
		return "a group"
	}
	return "a value of another type"
}

func quotePathOr(path, other string) string {
	if path == "" {
		return other
	}
	return fmt.Sprintf("%q", path)
}
