package firstboot

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"quantix/internal/fleet"
)

var (
	ignitionKeys    = []string{"ignition", "kernelArguments", "networkd", "passwd", "storage", "systemd"}
	ignitionVersion = regexp.MustCompile(`^(2\.[0-4]\.0|3\.[0-9]\.0)$`)
	sysprepPasses   = []string{"windowsPE", "offlineServicing", "generalize", "specialize", "auditSystem", "auditUser", "oobeSystem"}
)

const unattendSpace = "urn:schemas-microsoft-com:unattend"

// checkIgnition checks an Ignition configuration.
func (in checker) checkIgnition(field, source string) {
	switch {
	case strings.TrimSpace(source) == "":
		in.add(field, "Give the Ignition configuration.")
		return
	case len(source) > fleet.MaxUserData:
		in.add(field, "An Ignition configuration has at most %d KiB.", fleet.MaxUserData>>10)
		return
	}
	top, err := readJSON(source)
	if err != nil {
		in.add(field, "%s", err)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(top)) {
		if !slices.Contains(ignitionKeys, key) {
			in.add(field, "Ignition knows no %s.", shortenForError(key))
		} else if _, ok := top[key].(map[string]any); !ok {
			in.add(field, "Ignition takes an object as %s.", key)
		}
	}
	head, _ := top["ignition"].(map[string]any)
	version, _ := head["version"].(string)
	if !ignitionVersion.MatchString(version) {
		in.add(field, "Say which version of Ignition the configuration is for, such as {\"ignition\": {\"version\": \"3.4.0\"}}.")
	}
}

var jsonOffset = regexp.MustCompile(`after offset ([0-9]+)`)

// readJSON parses a JSON object and refuses duplicate names.
func readJSON(source string) (map[string]any, error) {
	var value any
	if err := json.Unmarshal([]byte(source), &value); err != nil {
		at := 0
		if m := jsonOffset.FindStringSubmatch(err.Error()); m != nil {
			offset := 0
			_, _ = fmt.Sscan(m[1], &offset) // the pattern matches only digits
			at = 1 + strings.Count(source[:min(offset, len(source))], "\n")
		}
		return nil, docError{at, "This is no JSON: " + shortenTo(strings.TrimPrefix(err.Error(), "jsontext: "), 200) + "."}
	}
	top, ok := value.(map[string]any)
	if !ok {
		return nil, docError{1, "This is no JSON object. An Ignition configuration is JSON; Butane converts YAML into JSON."}
	}
	if isNestedDeeperThan(value, maxDepth) {
		return nil, docError{0, fmt.Sprintf("This is nested more than %d deep.", maxDepth)}
	}
	return top, nil
}

// isNestedDeeperThan reports whether the value is nested deeper than limit levels.
func isNestedDeeperThan(v any, limit int) bool {
	if limit < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			if isNestedDeeperThan(x, limit-1) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return isNestedDeeperThan(x, limit-1) })
	}
	return false
}

// checkSysprep checks a Windows answer file.
func (in checker) checkSysprep(field, source string) {
	switch {
	case strings.TrimSpace(source) == "":
		in.add(field, "Give the answer file.")
	case len(source) > fleet.MaxUserData:
		in.add(field, "An answer file has at most %d KiB.", fleet.MaxUserData>>10)
	case !isPlainText(source):
		in.add(field, "This is no text: it has control characters, or is not UTF-8.")
	default:
		if err := checkSysprep(source); err != nil {
			in.add(field, "%s", err)
		}
	}
}

func checkSysprep(source string) error {
	d := xml.NewDecoder(strings.NewReader(source))
	at := func(format string, args ...any) error {
		line, _ := d.InputPos()
		return docError{line, fmt.Sprintf(format, args...)}
	}
	depth, passes := 0, 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if wrong, ok := errors.AsType[*xml.SyntaxError](err); ok {
			return docError{wrong.Line, "This is no XML: " + shortenTo(wrong.Msg, 200) + "."}
		}
		if err != nil {
			return at("This is no XML: %s.", shortenTo(strings.TrimPrefix(err.Error(), "xml: "), 200))
		}
		switch t := token.(type) {
		case xml.Directive:
			return at("A document type and entities of its own are not accepted. Leave them out.")
		case xml.EndElement:
			depth--
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return at("This is nested more than %d deep.", maxDepth)
			}
			switch {
			case depth == 1 && (t.Name.Local != "unattend" || t.Name.Space != unattendSpace):
				return at("An answer file is <unattend xmlns=%q>.", unattendSpace)
			case depth == 2 && t.Name.Local == "settings":
				if passes++; !slices.Contains(sysprepPasses, attrOf(t, "pass")) {
					return at("The settings have no pass that Windows knows: %s.", strings.Join(sysprepPasses, ", "))
				}
			case depth == 2 && t.Name.Local != "servicing" && t.Name.Local != "offlineImage":
				return at("<unattend> contains <settings>, not <%s>.", shortenForError(t.Name.Local))
			}
		}
	}
	if passes == 0 {
		return docError{0, "The answer file has no <settings>."}
	}
	return nil
}

func attrOf(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}
