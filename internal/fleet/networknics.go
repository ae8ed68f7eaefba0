package fleet

import "fmt"

// DirectMode is the macvtap mode, which decides how guests on the same host device reach one another. Empty: bridge
// mode, they do.
type DirectMode string

const (
	DirectPrivate DirectMode = "private" // guests of one host never reach one another
	// DirectVEPA: through the outside switch, which must support reflective relay (hairpin)
	DirectVEPA        DirectMode = "vepa"
	DirectPassthrough DirectMode = "passthrough" // one NIC has the device exclusively
)

// DirectModes returns all modes, in the order of the form.
func DirectModes() []DirectMode {
	return []DirectMode{"", DirectPrivate, DirectVEPA, DirectPassthrough}
}

// Word returns the mode's name on pages; empty: unknown mode.
func (m DirectMode) Word() string {
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
		return "Guests of one host do not reach one another, only what is outside."
	case DirectVEPA:
		return "Guests of one host reach one another through the switch outside, which must send packets back by the port that they came from (hairpin)."
	case DirectPassthrough:
		return "The device is one NIC's alone, on each host: the guest decides what it sends, and nobody else is on it."
	}
	return "Guests of one host reach one another, and what is outside."
}

func checkDirect(s NetworkSpec) string {
	if s.Direct.Word() == "" {
		var words []string
		for _, m := range DirectModes()[1:] {
			words = append(words, string(m))
		}
		return fmt.Sprintf("How guests get on with one another on their device is %s, or empty: they reach one another.", joinOr(words))
	}
	return ""
}

// Forward returns libvirt's forward mode of the network.
func (s NetworkSpec) Forward() string {
	if s.Direct != "" {
		return string(s.Direct)
	}
	return s.Mode.Is().Forward
}

// Counted reports whether each NIC on the network takes an exclusive, limited resource of its host: a virtual function
// or the device.
func (s NetworkSpec) Counted() bool {
	return s.Mode == NetworkSRIOV || s.Direct == DirectPassthrough
}

// NetworkNICs counts the NICs that a host can put on a Counted network.
type NetworkNICs struct {
	Total int `json:"total"` // enabled virtual functions; with passthrough: 1
	Used  int `json:"used"`  // used by running guests, managed or not
}

// Short returns a warning if more NICs are on the network than the host can serve; empty: enough for all.
func (c NetworkNICs) Short(s NetworkSpec, nics int) string {
	switch {
	case nics <= c.Total || c.Total == 0:
		return ""
	case s.Mode == NetworkSRIOV:
		return fmt.Sprintf("The device %s has %s now, and %d NICs of VMs here are to have one each: not all of these VMs can start.", s.Device, countFunctions(c.Total), nics)
	}
	return fmt.Sprintf("The device %s is for one NIC alone, and %d NICs of VMs here are on it: not all of these VMs can start.", s.Device, nics)
}

func countFunctions(n int) string {
	if n == 1 {
		return "1 virtual function"
	}
	return fmt.Sprintf("%d virtual functions", n)
}
