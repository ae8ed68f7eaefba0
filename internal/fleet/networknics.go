package fleet

import "fmt"

// DirectMode is the macvtap mode, which decides whether guests on the same host device reach one another. Empty:
// bridge mode, where they do.
type DirectMode string

const (
	DirectPrivate DirectMode = "private" // guests of one host never reach one another
	// DirectVEPA: guests reach one another through the external switch, which must support reflective relay (hairpin)
	DirectVEPA        DirectMode = "vepa"
	DirectPassthrough DirectMode = "passthrough" // one NIC has the device exclusively
)

// DirectModes returns all modes, in the order of the form.
func DirectModes() []DirectMode {
	return []DirectMode{"", DirectPrivate, DirectVEPA, DirectPassthrough}
}

// DisplayName returns the mode's name on pages; empty: unknown mode.
func (m DirectMode) DisplayName() string {
	switch m {
	case "":
		return "Bridge"
	case DirectPrivate:
		return "Private"
	case DirectVEPA:
		return "VEPA"
	case DirectPassthrough:
		return "Passthrough"
	}
	return ""
}

// Help returns the mode's effect on guests, for forms.
func (m DirectMode) Help() string {
	switch m {
	case DirectPrivate:
		return "Guests on the same host cannot reach one another, only outside systems."
	case DirectVEPA:
		return "Guests on the same host reach one another through the external switch, which must support reflective relay (hairpin mode)."
	case DirectPassthrough:
		return "One NIC per host uses the device exclusively, and its guest controls the device."
	}
	return "Guests on the same host reach one another and outside systems."
}

func directModeRefusal(s NetworkSpec) string {
	if s.Direct.DisplayName() == "" {
		var words []string
		for _, m := range DirectModes()[1:] {
			words = append(words, string(m))
		}
		return fmt.Sprintf("The macvtap mode is %s, or empty for bridge mode.", joinOr(words))
	}
	return ""
}

// Forward returns libvirt's forward mode of the network.
func (s NetworkSpec) Forward() string {
	if s.Direct != "" {
		return string(s.Direct)
	}
	return s.Mode.Info().Forward
}

// HasExclusiveNICs reports whether each NIC on the network needs an exclusive resource of its host: a virtual function
// or the device.
func (s NetworkSpec) HasExclusiveNICs() bool {
	return s.Mode == NetworkSRIOV || s.Direct == DirectPassthrough
}

// NetworkNICs counts the NICs that a host can put on a network with HasExclusiveNICs.
type NetworkNICs struct {
	Total int `json:"total"` // enabled virtual functions; with passthrough: 1
	Used  int `json:"used"`  // used by running guests, managed or not
}

// ShortageWarning returns a warning if more VM NICs are on the network than the host has resources for; empty: it has
// enough.
func (c NetworkNICs) ShortageWarning(s NetworkSpec, nics int) string {
	switch {
	case nics <= c.Total || c.Total == 0:
		return ""
	case s.Mode == NetworkSRIOV:
		return fmt.Sprintf("The device %s has %s, but %d NICs of VMs on this host need one each: not all of these VMs can start.", s.Device, virtualFunctionCount(c.Total), nics)
	}
	return fmt.Sprintf("The device %s is for one NIC alone, but %d NICs of VMs on this host use it: not all of these VMs can start.", s.Device, nics)
}

func virtualFunctionCount(n int) string {
	if n == 1 {
		return "1 virtual function"
	}
	return fmt.Sprintf("%d virtual functions", n)
}
