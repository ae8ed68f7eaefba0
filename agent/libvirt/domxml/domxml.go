// Package domxml translates between VM specs and libvirt's domain definitions. It calls neither libvirt nor other parts
// of the host, except that it reads the host's default CPU weight.
//
// Each field of the spec has an entry in a table with its writer and its reader: definitionFieldCodecs (parts.go) for
// fields of the VM, diskFieldCodecs and nicFieldCodecs (deviceparts.go) for fields of disks and NICs. Edit writes a
// spec into a definition, ReadDefinedSpec reads it back, and ReadHardware reads what the agent reports. Elements that
// an administrator adds to a definition are preserved.
package domxml

import (
	"bytes"
	"encoding/xml"
	"sync"

	"quantix/agent/hypervisor"

	"libvirt.org/go/libvirtxml"
)

// xmlBuffers pools the buffers for XML encoding.
var xmlBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// DefinitionText returns the definition's XML, without line breaks.
func DefinitionText(x *libvirtxml.Domain) (string, error) {
	b := xmlBuffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds only buffers
	defer xmlBuffers.Put(b)
	b.Reset()
	if err := xml.NewEncoder(b).Encode(x); err != nil {
		return "", err
	}
	return b.String(), nil
}

// BodyText is DefinitionText without the metadata.
func BodyText(x *libvirtxml.Domain) (string, error) {
	body := *x
	body.Metadata = nil
	return DefinitionText(&body)
}

// ParseDefinition parses libvirt's text of a definition. live must be set for the definition of a running guest.
func ParseDefinition(text string, live bool) (*libvirtxml.Domain, error) {
	x := &libvirtxml.Domain{}
	// A live definition contains backing file names from disk headers, which may have characters that XML forbids. The
	// text of an inactive definition stays unchanged, because the agent redefines the domain from it.
	if live {
		text = hypervisor.EscapeInvalidText(text)
	}
	if err := x.Unmarshal(text); err != nil {
		return x, err
	}
	return x, restoreNetworkNames(x, text)
}

// restoreNetworkNames sets the networks of a running guest's NICs. In a live definition libvirt replaces the network by
// its bridge or device, and writes the network's name into an attribute that libvirtxml does not read.
func restoreNetworkNames(x *libvirtxml.Domain, text string) error {
	var named struct {
		NICs []struct {
			Source libvirtxml.DomainInterfaceSourceNetwork `xml:"source"`
		} `xml:"devices>interface"`
	}
	if err := xml.Unmarshal([]byte(text), &named); err != nil || x.Devices == nil || len(named.NICs) != len(x.Devices.Interfaces) {
		return err
	}
	for i := range x.Devices.Interfaces {
		n, on := &x.Devices.Interfaces[i], named.NICs[i].Source
		if on.Network != "" && n.Source != nil && n.Source.Network == nil {
			n.Source = &libvirtxml.DomainInterfaceSource{Network: &on}
		}
	}
	return nil
}
