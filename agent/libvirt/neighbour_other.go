//go:build !linux

package libvirt

import "net"

func neighbours() []neighbour { return nil }

func dialerOn(string) *net.Dialer { return &net.Dialer{} }
