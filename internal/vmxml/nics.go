package vmxml

import (
	"strings"

	"quantix/internal/fleet"
)

// maxNICs is the maximum number of NICs that are read. The form later enforces the lower limit of a VM.
const maxNICs = 64

func readInterface(r *conversion, e *element) error {
	n := fleet.NIC{MAC: strings.TrimSpace(e.firstChild("mac").attr("address"))}
	source := e.firstChild("source")
	switch kind := e.attr("type"); {
	case kind == "network" && source.hasAttr("network"):
		n.Network, n.PortGroup = source.attr("network"), source.attr("portgroup")
	case kind == "bridge" && source.hasAttr("bridge"):
		n.Bridge = source.attr("bridge")
	case kind == "user":
		r.addNote(e, Left, "A NIC needs a network here: choose one.")
		return nil
	default:
		r.addNote(e, Refused, "A NIC of type "+shortenForError(kind)+" is on no network of Quantix.")
		return nil
	}
	for _, in := range e.children {
		if err := readNICChild(r, in, &n); err != nil {
			return err
		}
	}
	if n.Queues > 1 && n.Model != "" {
		r.addNote(e.firstChild("driver"), Left, "Only a virtio NIC has several queues.")
		n.Queues = 0
	}
	if len(r.Spec.NICs) >= maxNICs {
		return lineError(e.line, "this has more NICs than a VM can have.")
	}
	r.Spec.NICs = append(r.Spec.NICs, n)
	return nil
}

func readNICChild(r *conversion, e *element, n *fleet.NIC) error {
	switch e.name {
	case "source", "mac", "address", "alias", "target":
	case "model":
		readNICModel(r, e, n)
	case "boot":
		return r.nicFields(n).setNumber(e, "bootOrder", e.attr("order"))
	case "link":
		n.LinkDown = e.attr("state") == "down"
	case "driver":
		if e.hasAttr("queues") {
			if err := r.nicFields(n).setNumber(e, "queues", e.attr("queues")); err != nil {
				return err
			}
		}
		r.noteOtherAttributes(e, "NIC's driver", "name", "queues")
	case "bandwidth":
		return readBandwidth(r, e, n)
	case "filterref":
		r.addNote(e, Left, "Security groups filter the NIC's traffic here.")
	case "vlan", "mtu", "virtualport", "port":
		r.addNote(e, Left, "This is set on the network or its port group here, not on a NIC.")
	case "script", "backend", "downscript":
		r.addNote(e, Refused, "A program of the host.")
	default:
		r.addNote(e, Left, "A VM here has no such setting of a NIC.")
	}
	return nil
}

// equivalentModels maps unsupported NIC models to a supported model that uses the same guest driver.
var equivalentModels = map[string]string{"e1000": "e1000e", "e1000-82540em": "e1000e", "e1000-82544gc": "e1000e", "e1000-82545em": "e1000e"}

func readNICModel(r *conversion, e *element, n *fleet.NIC) {
	switch m := e.attr("type"); {
	case m == "virtio":
	case isOption(fleet.NICModels, m):
		n.Model = m
	case equivalentModels[m] != "":
		n.Model = equivalentModels[m]
		r.addNote(e, Left, "The NIC is an e1000e here, not "+m+": recent guests have its driver.")
	default:
		r.addNote(e, Left, "The NIC is virtio here, not "+shortenForError(m)+": the guest needs the virtio driver.")
	}
}

// readBandwidth reads the NIC's limits. libvirt and the fields both use KiB.
func readBandwidth(r *conversion, e *element, n *fleet.NIC) error {
	for _, in := range e.children {
		way := map[string]string{"inbound": "in", "outbound": "out"}[in.name]
		if way == "" {
			r.addNote(in, Left, "A NIC has limits for inbound and for outbound traffic.")
			continue
		}
		for attr, field := range map[string]string{"average": "KiB", "peak": "PeakKiB", "burst": "BurstKiB"} {
			if in.hasAttr(attr) {
				if err := r.nicFields(n).setNumber(in, "limits."+way+field, in.attr(attr)); err != nil {
					return err
				}
			}
		}
		r.noteOtherAttributes(in, "NIC's limit", "average", "peak", "burst")
	}
	return nil
}
