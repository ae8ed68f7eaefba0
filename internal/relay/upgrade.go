package relay

import (
	"net/http"
	"sync"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
)

// ReadLimit is the largest websocket message of either side, in bytes.
const ReadLimit = 1 << 20

// Protocol is the websocket subprotocol of both sides: binary messages that form one byte stream.
const Protocol = "binary"

// writeBuffers is the pool of write buffers. A buffer is in use only during a write, for a frame's header and first
// bytes; the rest of a chunk is sent from the chunk's own buffer.
var writeBuffers sync.Pool

// The read buffer is the 4 KiB buffer of net/http. The rest of a large message is read directly into a chunk, which
// costs less than a larger buffer and a copy.
var upgrader = websocket.Upgrader{
	Subprotocols:    []string{Protocol},
	WriteBufferSize: 4 << 10,
	WriteBufferPool: &writeBuffers,
	CheckOrigin:     func(*http.Request) bool { return true },
}

// NotWebsocketError returns the error for a request that is no websocket upgrade.
func NotWebsocketError() error {
	return fleet.Errorf(fleet.Malformed, "This address accepts only websocket upgrade requests.")
}

// Upgrade upgrades the request to one side of a relay. The caller must have authorized the request and checked a
// browser's origin. If Upgrade fails, it has written the response.
func Upgrade(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	return upgrader.Upgrade(w, r, nil)
}
