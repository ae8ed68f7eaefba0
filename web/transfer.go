package web

import (
	"time"

	"quantix/internal/relay"
)

// hostRelayConfig configures the relay between two hosts that cannot reach each other. All such relays share the limit
// bytesASecond; 0: no limit.
func hostRelayConfig(bytesASecond int64) relay.KindConfig {
	return relay.KindConfig{
		Kind:         relay.Transfer,
		Wait:         [2]time.Duration{relay.Requester: 20 * time.Second, relay.Answerer: 20 * time.Second},
		NoPeer:       [2]string{relay.Requester: "The other host did not connect in time.", relay.Answerer: "The other host did not connect in time."},
		Disconnected: [2]string{relay.Requester: "The sending host ended the connection.", relay.Answerer: "The receiving host ended the connection."},
		Unreachable:  [2]string{relay.Requester: "The sending host is no longer connected.", relay.Answerer: "The receiving host is no longer connected."},
		Taken:        "This transfer has its connection already.",
		NotBinary:    "A transfer carries binary messages only.",
		Limit:        relay.NewRateLimit(bytesASecond),
	}
}
