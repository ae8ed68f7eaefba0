package network

import (
	"quantix/views/kit"
)

// Form is a new network as a person typed it.
type Form struct {
	Name, Mode, Domain, Bridge, MTU, Device, Description string
	DNS                                                  bool
	IPv4, IPv6                                           SubnetForm
	Hosts                                                []kit.HostChoice
	Labels                                               kit.LabelForm
	Errors                                               kit.Errors
}

// SubnetForm is one family's addresses: a range and a lease a line.
type SubnetForm struct {
	Gateway, Ranges, Leases string
	DHCP                    bool
}

// modes are what a network can be, in the form's order.
var modes = []struct{ value, word, text string }{
	{"nat", "NAT", "Guests reach the outside with their host's address; nobody outside reaches them by themselves."},
	{"route", "Routed", "Guests reach the outside with their own addresses. Your routers must know the way back, by each host."},
	{"isolated", "Isolated", "Guests of one host reach one another and the host, and nothing else."},
}
