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
