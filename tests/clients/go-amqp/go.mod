module example.com/orders

go 1.18

require github.com/Azure/go-amqp v1.4.0
