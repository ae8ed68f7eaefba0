package libvirt

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent"
	"quantix/internal/fleet"
)

// markSpace is the XML namespace of what Quantix writes into a domain's metadata.
const markSpace = "https://quantix.dev/xmlns/vm/1"

// mark is Quantix's stamp in a domain's metadata.
type mark struct {
	ID         fleet.VMID `xml:"id"`
	Generation int64      `xml:"generation"`
	Name       string     `xml:"name"`    // of an older agent: the name it gets when it is next off; empty: its own
	Applied    string     `xml:"applied"` // an agent.Applied as JSON; empty: an older agent kept none
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

// putMark replaces the stamp and keeps all other metadata.
func putMark(meta *libvirtxml.DomainMetadata, m mark) *libvirtxml.DomainMetadata {
	var b strings.Builder
	fmt.Fprintf(&b, `<quantix:vm xmlns:quantix=%q><quantix:id>%s</quantix:id><quantix:generation>%d</quantix:generation>`, markSpace, m.ID, m.Generation)
	for _, text := range []struct{ name, value string }{{"name", m.Name}, {"applied", m.Applied}} {
		if text.value != "" {
			b.WriteString("<quantix:" + text.name + ">")
			_ = xml.EscapeText(&b, []byte(text.value)) // a Builder takes everything
			b.WriteString("</quantix:" + text.name + ">")
		}
	}
	b.WriteString("</quantix:vm>")
	if old, ok := markOf(meta); ok && old == m {
		return meta
	}
	if meta == nil {
		return &libvirtxml.DomainMetadata{XML: b.String()}
	}
	start, end := findMark(meta)
	if start == end {
		start, end = len(meta.XML), len(meta.XML)
	}
	return &libvirtxml.DomainMetadata{XML: meta.XML[:start] + b.String() + meta.XML[end:]}
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
