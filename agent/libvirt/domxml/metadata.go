package domxml

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// MetadataNamespace is the XML namespace of Quantix's element in a domain's metadata.
const MetadataNamespace = "https://quantix.dev/xmlns/vm/1"

// MetadataPrefix is the namespace's prefix.
const MetadataPrefix = "quantix"

// QuantixMetadata is Quantix's element in a domain's metadata. It contains the VM's ownership mark.
type QuantixMetadata struct {
	ID            fleet.VMID `xml:"id"`
	Generation    int64      `xml:"generation"`
	Name          string     `xml:"name"`    // used by older agents: the name after the next stop; empty: no rename
	Applied       string     `xml:"applied"` // an hypervisor.AppliedRecord as JSON; empty: written by an older agent
	OwnershipMark string     `xml:"mark"`    // the VM's ownership mark; empty: none yet
}

// NewQuantixMetadata returns the element that records the applied spec of a VM. It keeps the ownership mark oldMark
// unless the work contains a mark.
func NewQuantixMetadata(in hypervisor.ApplyWork, applied hypervisor.AppliedRecord, oldMark string) QuantixMetadata {
	text, err := json.Marshal(applied)
	if err != nil {
		panic(err) // cannot happen: the value has only texts and numbers
	}
	return QuantixMetadata{ID: in.VM.ID, Generation: in.VM.Generation, Applied: string(text), OwnershipMark: cmp.Or(in.OwnershipMark, oldMark)}
}

// ReadQuantixMetadata reads Quantix's element from a domain's metadata. It returns false if there is no such element or
// if it is invalid.
func ReadQuantixMetadata(meta *libvirtxml.DomainMetadata) (QuantixMetadata, bool) {
	var m QuantixMetadata
	start, end := FindQuantixMetadata(meta)
	if start == end {
		return m, false
	}
	err := xml.Unmarshal([]byte(meta.XML[start:end]), &m)
	return m, err == nil
}

// AppliedSpec returns the last applied spec, or nil if the element has none.
func (m QuantixMetadata) AppliedSpec() *hypervisor.AppliedRecord {
	var a hypervisor.AppliedRecord
	if m.Applied == "" || json.Unmarshal([]byte(m.Applied), &a) != nil {
		return nil
	}
	return &a
}

// withNamespace returns the element with its namespace, for a definition.
func (m QuantixMetadata) withNamespace() string {
	return m.element(MetadataPrefix+":", fmt.Sprintf(" xmlns:%s=%q", MetadataPrefix, MetadataNamespace))
}

// WithoutNamespace returns the element without a namespace, for DomainSetMetadata, which adds the namespace.
func (m QuantixMetadata) WithoutNamespace() string { return m.element("", "") }

func (m QuantixMetadata) element(prefix, attributes string) string {
	var b strings.Builder
	b.Grow(512 + len(m.Applied) + len(m.Applied)/2) // escaping makes the text longer
	add := func(parts ...string) {
		for _, p := range parts {
			b.WriteString(p)
		}
	}
	add("<", prefix, "vm", attributes, ">")
	for _, text := range []struct{ name, value string }{
		{"id", string(m.ID)}, {"generation", strconv.FormatInt(m.Generation, 10)}, {"name", m.Name}, {"applied", m.Applied}, {"mark", m.OwnershipMark},
	} {
		if text.value != "" {
			add("<", prefix, text.name, ">")
			if strings.IndexFunc(text.value, needsEscape) < 0 { // most JSON needs no escaping
				add(text.value)
			} else {
				_ = xml.EscapeText(&b, []byte(text.value)) // a strings.Builder never returns an error
			}
			add("</", prefix, text.name, ">")
		}
	}
	add("</", prefix, "vm>")
	return b.String()
}

// needsEscape reports whether the character must be escaped in XML.
func needsEscape(r rune) bool { return r < ' ' || r > '~' || r == '<' || r == '>' || r == '&' }

// PutQuantixMetadata replaces Quantix's element in the metadata and preserves all other metadata.
func PutQuantixMetadata(meta *libvirtxml.DomainMetadata, m QuantixMetadata) *libvirtxml.DomainMetadata {
	if old, ok := ReadQuantixMetadata(meta); ok && old == m {
		return meta
	}
	if meta == nil {
		return &libvirtxml.DomainMetadata{XML: m.withNamespace()}
	}
	start, end := FindQuantixMetadata(meta)
	if start == end {
		start, end = len(meta.XML), len(meta.XML)
	}
	return &libvirtxml.DomainMetadata{XML: meta.XML[:start] + m.withNamespace() + meta.XML[end:]}
}

// FindQuantixMetadata returns the start and end offsets of Quantix's element in the metadata's text. Both are 0 if
// there is none.
func FindQuantixMetadata(meta *libvirtxml.DomainMetadata) (start, end int) {
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
		if e.Name.Space == MetadataNamespace && e.Name.Local == "vm" {
			return start, int(d.InputOffset())
		}
	}
}
