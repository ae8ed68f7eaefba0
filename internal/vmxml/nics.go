package vmxml

import (
	"strings"

	"quantix/internal/fleet"
)

// mostNICs bounds how many are read; the form says how many a VM can have.
const mostNICs = 64

func takeInterface(r *reading, e *element) error {
	n := fleet.NIC{MAC: strings.TrimSpace(e.first("mac").attr("address"))}
	source := e.first("source")
	switch kind := e.attr("type"); {
	case kind == "network" && source.has("network"):
		n.Network, n.PortGroup = source.attr("network"), source.attr("portgroup")
	case kind == "bridge" && source.has("bridge"):
		n.Bridge = source.attr("bridge")
	case kind == "user":
		r.note(e, Left, "A card is on a network here: choose one.")
		return nil
	default:
		r.note(e, Refused, "A card of type "+cut(kind)+" is on no network of Quantix's.")
		return nil
	}
	for _, in := range e.in {
		if err := takeOfNIC(r, in, &n); err != nil {
			return err
		}
	}
	if n.Queues > 1 && n.Model != "" {
		r.note(e.first("driver"), Left, "Only a virtio card has several queues.")
		n.Queues = 0
	}
	if len(r.Spec.NICs) >= mostNICs {
		return wrong(e.line, "this has more cards than a VM can have.")
	}
	r.Spec.NICs = append(r.Spec.NICs, n)
	return nil
}

func takeOfNIC(r *reading, e *element, n *fleet.NIC) error {
	switch e.name {
	case "source", "mac", "address", "alias", "target":
	case "model":
		takeModel(r, e, n)
	case "boot":
		return setNumber(r, e, fleet.NICFields, n, "bootOrder", e.attr("order"), 1)
	case "link":
		n.LinkDown = e.attr("state") == "down"
	case "driver":
		if e.has("queues") {
			if err := setNumber(r, e, fleet.NICFields, n, "queues", e.attr("queues"), 1); err != nil {
				return err
			}
		}
		r.others(e, "card's driver", "name", "queues")
	case "bandwidth":
		return takeBandwidth(r, e, n)
	case "filterref":
		r.note(e, Left, "What passes the card is said by security groups here.")
	case "vlan", "mtu", "virtualport", "port":
		r.note(e, Left, "This is said of the network or its port group here, not of a card.")
	case "script", "backend", "downscript":
		r.note(e, Refused, "A program of the host.")
	default:
		r.note(e, Left, "A VM here has no such setting of a card.")
	}
	return nil
}

// likeModels are models that a VM here cannot have, and the one that guests with their drivers know.
var likeModels = map[string]string{"e1000": "e1000e", "e1000-82540em": "e1000e", "e1000-82544gc": "e1000e", "e1000-82545em": "e1000e"}

func takeModel(r *reading, e *element, n *fleet.NIC) {
	switch m := e.attr("type"); {
	case m == "virtio":
	case offered(fleet.NICModels, m):
		n.Model = m
	case likeModels[m] != "":
		n.Model = likeModels[m]
		r.note(e, Left, "The card is an e1000e here, not "+m+": guests of this century have its driver.")
	default:
		r.note(e, Left, "A card is a virtio one here, not "+cut(m)+": its guest needs the driver.")
	}
}

// takeBandwidth reads limits, which libvirt has in KiB as well.
func takeBandwidth(r *reading, e *element, n *fleet.NIC) error {
	for _, in := range e.in {
		way := map[string]string{"inbound": "in", "outbound": "out"}[in.name]
		if way == "" {
			r.note(in, Left, "A card's limits are of what comes in and of what goes out.")
			continue
		}
		for attr, field := range map[string]string{"average": "KiB", "peak": "PeakKiB", "burst": "BurstKiB"} {
			if in.has(attr) {
				if err := setNumber(r, in, fleet.NICFields, n, "limits."+way+field, in.attr(attr), 1); err != nil {
					return err
				}
			}
		}
		r.others(in, "card's limit", "average", "peak", "burst")
	}
	return nil
}
