package wire

import (
	"google.golang.org/grpc"
)

// MaxMessage is the most bytes that one message may have, in either direction and at
// both ends. gRPC's own limit of 4 MiB is below what a launch may carry; without any, a
// plugin that has gone wrong could fill its host's memory. Output has no limit: it
// comes in messages of MaxLogData.
const MaxMessage = 64 << 20

// MaxWord is the most bytes that a status's message and each of its raw words keep; what
// is cut ends in dots. They are for people, and must not cost a job its exit code.
const MaxWord = 64 << 10

// StreamWindow is how many bytes of a stream may be under way to an end that doesn't
// read: a plugin whose host is slow waits once that much was sent. ConnWindow is the
// same of all streams together; what isn't read of one takes nothing from the others.
// Both are fixed, where gRPC would let them grow up to 16 MiB.
const (
	StreamWindow = 1 << 20
	ConnWindow   = 4 << 20
)

// ServerOptions are for the server of a plugin.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.StaticStreamWindowSize(StreamWindow), grpc.StaticConnWindowSize(ConnWindow),
	}
}

// DialOptions are for a host's connection, besides its credentials. Nothing is sent a
// second time by gRPC: only the contract knows what may be.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(CallOptions()...),
		grpc.WithStaticStreamWindowSize(StreamWindow), grpc.WithStaticConnWindowSize(ConnWindow),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	}
}

// CallOptions bound the messages of one call, on a connection of whatever options.
func CallOptions() []grpc.CallOption {
	return []grpc.CallOption{grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)}
}
