package transfer

import "net"

// Raw returns the underlying connection.
func (o *SendingConn) Raw() net.Conn { return o.conn }
