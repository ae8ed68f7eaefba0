package hypervisor

import (
	"encoding/xml"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"quantix/internal/fleet"
)

// contextLines is the number of unchanged lines shown before and after a change.
const contextLines = 3

// DiffDefinitions returns the difference between two definitions. If before is empty, every line of after is new.
func DiffDefinitions(before, after string) fleet.DefinitionDiff {
	was, is := splitXMLLines(before), splitXMLLines(after)
	all := make([]fleet.DefinitionLine, 0, len(is))
	at := 0 // the next line of before
	stay := func(upTo int) {
		for ; at < upTo; at++ {
			all = append(all, fleet.DefinitionLine{Op: fleet.LineSame, Text: was[at].text, At: was[at].path})
		}
	}
	next := 0 // the next line of after
	for _, e := range udiff.Lines(before, after) {
		from, to := strings.Count(before[:e.Start], "\n"), strings.Count(before[:e.End], "\n")
		next += from - at
		stay(from)
		for ; at < to; at++ {
			all = append(all, fleet.DefinitionLine{Op: fleet.LineRemoved, Text: was[at].text, At: was[at].path})
		}
		for range strings.Count(e.New, "\n") {
			all = append(all, fleet.DefinitionLine{Op: fleet.LineAdded, Text: is[next].text, At: is[next].path})
			next++
		}
	}
	stay(len(was))
	return withContextLines(all).Bounded()
}

// withContextLines removes unchanged lines that are far from a change.
func withContextLines(all []fleet.DefinitionLine) fleet.DefinitionDiff {
	near := make([]bool, len(all))
	for i, l := range all {
		if l.Op != fleet.LineSame {
			for k := max(0, i-contextLines); k <= min(len(all)-1, i+contextLines); k++ {
				near[k] = true
			}
		}
	}
	var out fleet.DefinitionDiff
	for i, l := range all {
		switch {
		case near[i]:
			out.Lines = append(out.Lines, l)
		case i == 0 || near[i-1]:
			out.Lines = append(out.Lines, fleet.DefinitionLine{Op: fleet.LineGap})
		}
	}
	if !slices.Contains(near, true) {
		out.Lines = nil // no differences
	}
	return out
}

// xmlLine is a line of XML and the path of the first element that starts or ends on that line.
type xmlLine struct{ text, path string }

// splitXMLLines splits a text into lines with their element paths. Each line must end with a newline.
func splitXMLLines(text string) []xmlLine {
	var out []xmlLine
	for line := range strings.Lines(text) {
		out = append(out, xmlLine{text: strings.TrimSuffix(line, "\n")})
	}
	d := xml.NewDecoder(strings.NewReader(text))
	var path []string
	line, upTo := 0, 0
	for {
		from := int(d.InputOffset())
		t, err := d.Token()
		if err != nil {
			return out
		}
		line += strings.Count(text[upTo:from], "\n")
		upTo = from
		here := ""
		switch e := t.(type) {
		case xml.StartElement:
			path = append(path, strings.Trim(e.Name.Space+":"+e.Name.Local, ":"))
			here = strings.Join(path, "/")
		case xml.EndElement:
			here = strings.Join(path, "/")
			path = path[:max(0, len(path)-1)]
		}
		if here != "" && line < len(out) && out[line].path == "" {
			out[line].path = here
		}
	}
}
