package libvirt

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent"
	"quantix/internal/fleet"
)

// markSpace is the XML namespace of what Quantix writes into a domain's metadata.
const markSpace = "https://quantix.dev/xmlns/vm/1"

// markKey is its prefix.
const markKey = "quantix"

// mark is Quantix's stamp in a domain's metadata.
type mark struct {
	ID         fleet.VMID `xml:"id"`
	Generation int64      `xml:"generation"`
	Name       string     `xml:"name"`    // of an older agent: the name it gets when it is next off; empty: its own
	Applied    string     `xml:"applied"` // an agent.Applied as JSON; empty: an older agent kept none
	Mark       string     `xml:"mark"`    // the VM's secret; empty: it has none yet
}

// markOf reads the stamp; false where there is none that can be read.
func markOf(meta *libvirtxml.DomainMetadata) (mark, bool) {
	var m mark
	start, end := findMark(meta)
	if start == end {
		return m, false
	}
	err := xml.Unmarshal([]byte(meta.XML[start:end]), &m)
	return m, err == nil
}

// applied is what was last applied to the domain; nil where the mark does not tell.
func (m mark) applied() *agent.Applied {
	var a agent.Applied
	if m.Applied == "" || json.Unmarshal([]byte(m.Applied), &a) != nil {
		return nil
	}
	return &a
}

// xml is the stamp as it stands in the metadata.
func (m mark) xml() string {
	return m.element(markKey+":", fmt.Sprintf(" xmlns:%s=%q", markKey, markSpace))
}

// plain is the stamp as libvirt takes it, to put it into the namespace by itself.
func (m mark) plain() string { return m.element("", "") }

func (m mark) element(prefix, attributes string) string {
	var b strings.Builder
	b.Grow(512 + len(m.Applied) + len(m.Applied)/2) // what is escaped is longer
	add := func(parts ...string) {
		for _, p := range parts {
			b.WriteString(p)
		}
	}
	add("<", prefix, "vm", attributes, ">")
	for _, text := range []struct{ name, value string }{
		{"id", string(m.ID)}, {"generation", strconv.FormatInt(m.Generation, 10)}, {"name", m.Name}, {"applied", m.Applied}, {"mark", m.Mark},
	} {
		if text.value != "" {
			add("<", prefix, text.name, ">")
			if strings.IndexFunc(text.value, special) < 0 { // as JSON mostly is
				add(text.value)
			} else {
				_ = xml.EscapeText(&b, []byte(text.value)) // a Builder takes everything
			}
			add("</", prefix, text.name, ">")
		}
	}
	add("</", prefix, "vm>")
	return b.String()
}

// special reports whether XML may not have the character as it is.
func special(r rune) bool { return r < ' ' || r > '~' || r == '<' || r == '>' || r == '&' }

// putMark replaces the stamp and keeps all other metadata.
func putMark(meta *libvirtxml.DomainMetadata, m mark) *libvirtxml.DomainMetadata {
	if old, ok := markOf(meta); ok && old == m {
		return meta
	}
	if meta == nil {
		return &libvirtxml.DomainMetadata{XML: m.xml()}
	}
	start, end := findMark(meta)
	if start == end {
		start, end = len(meta.XML), len(meta.XML)
	}
	return &libvirtxml.DomainMetadata{XML: meta.XML[:start] + m.xml() + meta.XML[end:]}
}

// findMark is where the stamp stands in the metadata's text; equal offsets where there is none.
func findMark(meta *libvirtxml.DomainMetadata) (start, end int) {
	if meta == nil {
		return 0, 0
	}
	d := xml.NewDecoder(strings.NewReader(meta.XML))
	for {
		start = int(d.InputOffset())
		t, err := d.Token()
		if err != nil {
			return 0, 0
		}
		e, ok := t.(xml.StartElement)
		if !ok {
			continue
		}
		if err := d.Skip(); err != nil {
			return 0, 0
		}
		if e.Name.Space == markSpace && e.Name.Local == "vm" {
			return start, int(d.InputOffset())
		}
	}
}
