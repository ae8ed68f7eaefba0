package libvirt

import (
	"bytes"
	"encoding/xml"
	"sync"

	"libvirt.org/go/libvirtxml"
)

// texts are what definitions were written in, to be written in again.
var texts = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// textOf is a definition as libvirt reads it. It has no lines: libvirt writes its own.
func textOf(x *libvirtxml.Domain) (string, error) {
	b := texts.Get().(*bytes.Buffer) //nolint:forcetypeassert // the pool has no others
	defer texts.Put(b)
	b.Reset()
	if err := xml.NewEncoder(b).Encode(x); err != nil {
		return "", err
	}
	return b.String(), nil
}
