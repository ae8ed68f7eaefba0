package relay

import (
	"net/http"
	"sync"

	"github.com/gorilla/websocket"
)

// ReadLimit bounds one websocket message of either side.
const ReadLimit = 1 << 20

// Protocol is the websocket subprotocol of both sides: binary messages that together are one stream of bytes.
const Protocol = "binary"

// headers are write buffers: they hold a frame's header and first bytes, and only while it is written. The rest of a chunk
// goes out from where it was read to.
var headers sync.Pool

// The read buffer is net/http's own 4 KiB; what a large message has beyond it is read straight into a chunk, which costs
// less than a larger buffer and a copy.
var upgrader = websocket.Upgrader{
	Subprotocols:    []string{Protocol},
	WriteBufferSize: 4 << 10,
	WriteBufferPool: &headers,
	CheckOrigin:     func(*http.Request) bool { return true },
}

// Upgrade turns the request into one side of a pair. The caller has judged all that can be judged before, the origin
// of a browser too. On error the answer is written.
func Upgrade(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	return upgrader.Upgrade(w, r, nil)
}
