package libvirt

import (
	"bytes"
	"encoding/xml"
	"sync"

	"libvirt.org/go/libvirtxml"
)

// xmlBuffers pools the buffers for XML encoding.
var xmlBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// definitionText returns the definition's XML, without line breaks.
func definitionText(x *libvirtxml.Domain) (string, error) {
	b := xmlBuffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool holds only buffers
	defer xmlBuffers.Put(b)
	b.Reset()
	if err := xml.NewEncoder(b).Encode(x); err != nil {
		return "", err
	}
	return b.String(), nil
}
