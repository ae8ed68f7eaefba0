package domxml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"quantix/internal/fleet"
)

// incomingElements are elements that no definition of another host may have, because they give a guest access to files,
// devices or options of this host that the VM's spec does not name.
var incomingElements = map[string]string{
	"hostdev": "a host device", "filesystem": "a shared folder", "commandline": "options of QEMU", "override": "options of QEMU",
	"kernel": "a kernel file", "initrd": "a kernel file", "dtb": "a device tree file", "acpi-table": "an ACPI table file", "shmem": "shared memory",
	"redirfilter": "a redirection filter", "secret": "a secret", "auth": "a secret",
}

// incomingPaths are the files, directories and cgroups of this host that every definition may name.
var incomingPaths = []string{
	"/machine", "/machine/", "/dev/urandom", "/dev/random", "/dev/hwrng", "/dev/pts/", "/dev/net/", "/dev/vhost-net", "/dev/vhost-vsock",
	"/usr/bin/", "/usr/libexec/", "/usr/lib/qemu/", "/usr/share/", "/var/lib/libvirt/qemu/", "/run/libvirt/qemu/",
}

// CheckIncoming checks the definition of a running VM that another host sends, and returns the domain's name. The
// definition must be that of the VM, and may name only files below dirs and files that every definition may name.
func CheckIncoming(text string, id fleet.VMID, dirs []string) (name string, err error) {
	in := xml.NewDecoder(strings.NewReader(text))
	depth, uuid, element := 0, "", ""
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("the source host sends an invalid definition: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			depth++
			element = t.Name.Local
			if why, ok := incomingElements[element]; ok && depth > 1 {
				return "", fleet.Errorf(fleet.Conflict, "The definition on the source host has %s (element %s), which Quantix does not migrate.", why, element)
			}
			if depth == 2 && element == "metadata" {
				if err := in.Skip(); err != nil {
					return "", fmt.Errorf("the source host sends an invalid definition: %w", err)
				}
				depth--
				continue
			}
			for _, a := range t.Attr {
				if err := checkIncomingPath(element, a.Value, dirs); err != nil {
					return "", err
				}
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			value := strings.TrimSpace(string(t))
			switch {
			case depth == 2 && element == "name" && name == "":
				name = value
			case depth == 2 && element == "uuid" && uuid == "":
				uuid = value
			}
			if err := checkIncomingPath(element, value, dirs); err != nil {
				return "", err
			}
		}
	}
	if name == "" || uuid != string(id) {
		return "", errors.New("the source host sends the definition of another VM")
	}
	return name, nil
}

func checkIncomingPath(element, value string, dirs []string) error {
	if !strings.HasPrefix(value, "/") {
		return nil
	}
	clean := filepath.Clean(value)
	for _, allowed := range incomingPaths {
		if clean == strings.TrimSuffix(allowed, "/") || strings.HasSuffix(allowed, "/") && strings.HasPrefix(clean, allowed) {
			return nil
		}
	}
	for _, dir := range dirs {
		if strings.HasPrefix(clean, filepath.Clean(dir)+"/") {
			return nil
		}
	}
	return fleet.Errorf(fleet.Conflict, "The definition on the source host names %s (element %s), which is in none of the VM's pools.", value, element)
}
