package web_test

import (
	"cmp"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A tenant's XML with settings that give access to the host is refused at the XML field, with line numbers. For
// infrastructure administrators the form ignores these settings and lists them line by line.
func TestPastedXMLWithHostAccessRefusedToTenant(t *testing.T) {
	t.Parallel()
	r := newRefusalPortal(t)
	admin, tom := r.newBrowser(), r.newBrowser()
	for b, name := range map[*browser]string{admin: "ann", tom: "tom"} {
		b.post("/sign-in", url.Values{"name": {name}, "password": {goodPassword}}).requireStatus(t, http.StatusSeeOther)
	}
	domain := func(head, devices string) string {
		return fmt.Sprintf("<domain type='kvm'>\n<name>mine</name>\n<memory unit='GiB'>1</memory>\n<vcpu>1</vcpu>\n%s\n<devices>\n%s\n</devices>\n</domain>", head, devices)
	}
	send := func(b *browser, xml string) answer {
		return b.post("/vms", url.Values{"key": {"k"}, "projectId": {string(r.project)}, "hostId": {""}, "source": {"xml"}, "xml": {xml}, "begin": {"read"}})
	}
	send(admin, domain("", "")).requireStatus(t, http.StatusOK)
	send(tom, domain("", "")).requireStatus(t, http.StatusOK)
	r.last = ""
	r.expectNoWrites(t, "nobody")
	for what, c := range map[string]struct{ head, devices, line, listed string }{
		"QEMU's command line":     {"<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:arg value='-monitor'/></qemu:commandline>", "", "Line 5", ""},
		"a PCI device":            {"", "<hostdev mode='subsystem' type='pci'/>", "Line 7", ""},
		"a USB device":            {"", "<hostdev mode='subsystem' type='usb'/>", "Line 7", ""},
		"a mediated device":       {"", "<hostdev mode='subsystem' type='mdev'/>", "Line 7", ""},
		"a NIC of a host device":  {"", "<interface type='hostdev'/>", "Line 7", ""},
		"a file outside of pools": {"", "<disk type='file' device='disk'><source file='/etc/shadow'/><target dev='vda'/></disk>", "Line 7", "The file of the disk vda is not an image in a pool"},
		"a disk of the host":      {"", "<disk type='block' device='disk'><source dev='/dev/sda'/><target dev='vda'/></disk>", "Line 7", "The file of the disk vda is not an image in a pool"},
		"a folder of the host":    {"", "<filesystem type='mount'><source dir='/'/><target dir='root'/></filesystem>", "Line 7", ""},
		"a file as a serial port": {"", "<serial type='file'><source path='/etc/cron.d/x'/></serial>", "Line 7", ""},
		"a socket of the host":    {"", "<serial type='unix'><source mode='bind' path='/run/x'/></serial>", "Line 7", ""},
	} {
		a := send(tom, domain(c.head, c.devices))
		if text := html.UnescapeString(a.pageContent()); a.status != http.StatusUnprocessableEntity || !strings.Contains(text, `id="xml-error"`) || !strings.Contains(text, "give the VM access to the host") || !strings.Contains(text, c.line) {
			t.Errorf("%s, by a tenant: %d %.300s", what, a.status, text)
		}
		a = send(admin, domain(c.head, c.devices))
		if text := html.UnescapeString(a.pageContent()); a.status != http.StatusOK || !strings.Contains(text, cmp.Or(c.listed, "Ignored, because it affects more than the VM: 1 line.")) || c.listed == "" && !strings.Contains(text, c.line) {
			t.Errorf("%s, by an administrator: %d %.300s", what, a.status, text)
		}
		r.expectNoWrites(t, what)
	}
	for what, c := range map[string]struct{ xml, says string }{
		"an external entity":   {"<!DOCTYPE d [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><domain/>", "Line 1: a document type is not read"},
		"NUL":                  {domain("", "\x00"), "The XML must be UTF-8 text without NUL characters."},
		"a CDATA end":          {domain("]]>", ""), "well-formed"},
		"another XML document": {"<network/>", "the outermost element is <network>"},
		"depth":                {strings.Repeat("<domain type='kvm'>", 60), "more elements, or deeper ones"},
		"too many elements":    {"<domain type='kvm'>" + strings.Repeat("<a/>", 4_500), "more elements"},
	} {
		for by, b := range map[string]*browser{"a tenant": tom, "who runs the hosts": admin} {
			a := send(b, c.xml)
			if text := html.UnescapeString(a.pageContent()); a.status != http.StatusUnprocessableEntity || !strings.Contains(text, `id="xml-error"`) || !strings.Contains(text, c.says) {
				t.Errorf("%s, by %s: %d %.600s", what, by, a.status, text)
			}
		}
		r.expectNoWrites(t, what)
	}
}
