package domxml

import (
	"testing"

	"libvirt.org/go/libvirtxml"
)

func TestQuantixMetadataPreservesForeignMetadata(t *testing.T) {
	t.Parallel()
	const before, after = `<a:x xmlns:a="urn:a"><a:vm>1</a:vm></a:x>`, `<b:y xmlns:b="urn:b"/>`
	first := QuantixMetadata{ID: "0198-1", Generation: 3}
	meta := PutQuantixMetadata(&libvirtxml.DomainMetadata{XML: before}, first)
	meta.XML += after
	for _, m := range []QuantixMetadata{{ID: "0198-1", Generation: 4, Name: `web<&"`, Applied: `{"name":"<&>"}`, OwnershipMark: "0f"}, {ID: "0198-1", Generation: 5}} {
		meta = PutQuantixMetadata(meta, m)
		got, ok := ReadQuantixMetadata(meta)
		if !ok || got != m {
			t.Errorf("read back %+v, %v, want %+v", got, ok, m)
		}
		if again := PutQuantixMetadata(meta, m); again.XML != meta.XML {
			t.Errorf("the same mark again made\n%s of\n%s", again.XML, meta.XML)
		}
	}
	const want = before + `<quantix:vm xmlns:quantix="https://quantix.dev/xmlns/vm/1"><quantix:id>0198-1</quantix:id><quantix:generation>5</quantix:generation></quantix:vm>` + after
	if meta.XML != want {
		t.Errorf("the metadata is\n%s, want\n%s", meta.XML, want)
	}
	for _, none := range []*libvirtxml.DomainMetadata{nil, {}, {XML: before}, {XML: "<broken"}} {
		if m, ok := ReadQuantixMetadata(none); ok {
			t.Errorf("%+v has the mark %+v", none, m)
		}
	}
}
