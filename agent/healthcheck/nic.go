package healthcheck

import (
	"context"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// Limits of errors of a NIC within an hour: at least so many, and at least one of so many packets.
const (
	manyNICErrors     = 100
	packetsPerError   = 10_000
	maxNICs           = 256
	nicErrorPeriod    = time.Hour
	interfaceIsUpFlag = 1 // IFF_UP
)

// NICs returns the check of the host's physical NICs: links that are down although networks use them, and errors.
func NICs() Check { return nics("/", time.Now) }

func nics(root tree, now func() time.Time) Check {
	hour := newGrowth(nicErrorPeriod)
	return Check{Name: "nic", Interval: time.Minute, Timeout: 10 * time.Second, Run: func(context.Context) ([]healthevent.Finding, error) {
		var out []healthevent.Finding
		names := map[string]bool{}
		physical := 0
		for _, name := range root.names(netDir) {
			if !root.exists(netDir, name, "device") || physical == maxNICs {
				continue
			}
			physical++
			if f, down := root.linkDown(name); down {
				out = append(out, f)
			}
			grown := map[string]float64{}
			for _, counter := range []string{"rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "rx_packets", "tx_packets"} {
				if n, ok := root.number(netDir, name, "statistics", counter); ok {
					names[name+" "+counter] = true
					grown[counter] = hour.add(now(), name+" "+counter, n)
				}
			}
			errors, packets := grown["rx_errors"]+grown["tx_errors"], grown["rx_packets"]+grown["tx_packets"]
			if errors >= manyNICErrors && errors*packetsPerError >= packets {
				f := finding("nic/"+name, "nic-errors", fleet.AlarmWarning, "The NIC "+name+" has had many errors within an hour. Check cable, transceiver and switch port.", "errors", errors)
				f.Values["drops"] = grown["rx_dropped"] + grown["tx_dropped"]
				out = append(out, f)
			}
		}
		hour.keepOnly(names)
		if physical == 0 {
			return nil, Unavailable("The host has no physical NIC.")
		}
		return out, nil
	}}
}

const netDir = "sys/class/net"

// linkDown returns a finding if the NIC is switched on and carries something, but has no link.
func (t tree) linkDown(name string) (healthevent.Finding, bool) {
	flags, _ := t.line(netDir, name, "flags")
	n, err := strconv.ParseUint(strings.TrimPrefix(flags, "0x"), 16, 32)
	carrier, readable := t.line(netDir, name, "carrier") // cannot be read while the NIC is switched off
	if err != nil || n&interfaceIsUpFlag == 0 || !readable || carrier != "0" {
		return healthevent.Finding{}, false
	}
	object := "nic/" + name
	switch master := t.linkName(netDir, name, "master"); {
	case master != "" && t.exists(netDir, master, "bonding"):
		return finding(object, "link-down", fleet.AlarmWarning, "The NIC "+name+" has no link. It is a port of the bond "+master+", which has less bandwidth and redundancy now.", "", 0), true
	case master != "":
		return finding(object, "link-down", fleet.AlarmCritical, "The NIC "+name+" has no link. It carries the networks of the bridge "+master+".", "", 0), true
	}
	for _, entry := range t.names(netDir, name) {
		if upper, ok := strings.CutPrefix(entry, "upper_"); ok {
			return finding(object, "link-down", fleet.AlarmCritical, "The NIC "+name+" has no link. It carries the device "+upper+".", "", 0), true
		}
	}
	return healthevent.Finding{}, false
}
