//go:build !linux

package guest

import "net"

func neighbours() []neighbour { return nil }

func dialerOnDevice(string) *net.Dialer { return &net.Dialer{} }
