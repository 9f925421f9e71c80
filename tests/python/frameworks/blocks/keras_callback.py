from multiverso.theano_ext.keras_ext.callbacks import MVCallback

model = Sequential()
# build and compile your model here

# Train the model
model.fit(X_train, Y_train,
          batch_size=batch_size,
          nb_epoch=nb_epoch,
          validation_data=(X_test, Y_test),
          shuffle=True,
          callbacks=[MVCallback(model)])  # The only difference is that you add callbacks here
