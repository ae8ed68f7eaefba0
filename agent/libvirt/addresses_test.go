package libvirt

import (
	"fmt"
	"testing"

	golibvirt "github.com/digitalocean/go-libvirt"
)

func TestAGuestCannotSwellItsHostsReport(t *testing.T) {
	t.Parallel()
	card := golibvirt.DomainInterface{Hwaddr: []string{"52:54:00:00:00:01"}}
	for i := range 5000 {
		card.Addrs = append(card.Addrs, golibvirt.DomainIPAddr{Addr: fmt.Sprintf("10.1.%d.%d", i/250, i%250)})
	}
	if n := len(byMAC([]golibvirt.DomainInterface{card})[card.Hwaddr[0]]); n != mostAddresses {
		t.Errorf("%d addresses are told", n)
	}
}
